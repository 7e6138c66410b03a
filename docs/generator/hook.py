"""The hook of MkDocs that adds the generated pages to the site and to its navigation."""

import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.generator.pages import pages

SPREAD = re.compile(r"(?<=\d) ± (?=\d)")
INTERVAL = re.compile(r"(?<=\d) to (?=[+-]?[\d.]+\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace each folder of generated pages in the navigation by its pages."""
    config.nav = [expanded(entry) for entry in config.nav or []]
    return config


def expanded(entry: Any) -> Any:
    """Return an entry of the navigation with its folders replaced by their pages, index first."""
    if isinstance(entry, dict):
        return {title: expanded(below) for title, below in entry.items()}
    if isinstance(entry, list):
        return [expanded(each) for each in entry]
    if entry.endswith("/"):
        below = [place for place in pages() if place.startswith(entry)]
        return sorted(below, key=lambda place: (not place.endswith("index.md"), place))
    return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, as if they were files in ``docs/``."""
    for place, text in pages().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Keep a value and its spread, and the ends of an interval, in one line of a narrow table."""
    if not page.file.src_uri.startswith("results/"):
        return markdown
    return INTERVAL.sub("&nbsp;to&nbsp;", SPREAD.sub("&nbsp;±&nbsp;", markdown))
