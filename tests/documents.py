"""The documentation as tests read it: its pages, their links and the commands that they show."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs.generator.pages import pages

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]*)\)")
BEFORE = re.compile(r"^(?:\w+=\S+ )*(?:uv run (?:--\w+ \w+ )?)?")


@dataclass(frozen=True)
class Command:
    """A command that a page shows, without ``uv run`` and without its comment."""

    page: str
    line: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line)


def written() -> dict[str, str]:
    """Return the text of every page that a person wrote, by its place in the repository."""
    places = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return {str(place.relative_to(ROOT)): place.read_text() for place in sorted(places)}


def every_page() -> dict[str, str]:
    """Return the text of every page, the generated ones included."""
    return written() | {f"docs/{place}": text for place, text in pages().items()}


def blocks(text: str, *languages: str) -> list[str]:
    """Return the code blocks of a page in some languages."""
    found = FENCE.findall(text)
    return [re.sub(f"^{indent}", "", body, flags=re.M) for indent, language, body in found
            if language in languages]  # fmt: skip


def example(about: str) -> str:
    """Return the code block, of any page, whose first line is the comment ``# about``."""
    found = [
        block for text in written().values() for block in blocks(text, "python", "yaml", "toml")
    ]
    (text,) = [block for block in found if block.startswith(f"# {about}\n")]
    return text


def without_blocks(text: str) -> str:
    """Return a page without its code blocks."""
    return FENCE.sub("", text)


def commands(page: str, text: str) -> Iterator[Command]:
    """Yield the commands in the blocks of a page that are to be typed."""
    for block in blocks(text, "bash"):
        for line in re.sub(r"\\\n *", "", block).splitlines():
            bare = BEFORE.sub("", re.sub(r"(^|\s)# .*", "", line)).strip()
            if bare:
                yield Command(page, bare)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(text), re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in plain}
