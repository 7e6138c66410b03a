"""The reference of components: methods, strategies, guards, stages, data sets, splits, networks."""

import dataclasses
import importlib
from dataclasses import dataclass

import yaml

from docs.generator.comments import read_file
from docs.generator.docstrings import attributes, details, summary
from docs.generator.markdown import code, from_docstring, table
from docs.generator.types import describe, hints
from server_app.config.choices import CONF
from task import registry

GLOBAL = "# @package _global_"
# The groups whose choices are components: one Python and one YAML file each.
GROUPS = (
    "method", "strategy", "guard", "after", "clock", "participation", "data", "partition",
    "augmentation", "model", "tune",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """A key that can be set: its dotted name, its type, its default and its meaning."""

    key: str
    kind: str
    default: str
    meaning: str


def settings(group: str, name: str) -> list[Setting]:
    """Return the settings of one component."""
    kind: type = registry.component_class(group, name)
    documented, types = attributes(kind), hints(kind)
    written = read_file(CONF / group / f"{name}.yaml").keys
    by_name = {key.split(".")[-1]: value for key, value in written.items()}
    return [
        Setting(
            f"{group}.{field.name}",
            describe(types[field.name]),
            by_name[field.name].default,
            documented.get(field.name) or by_name[field.name].comment,
        )
        for field in dataclasses.fields(kind)
        if field.name in by_name
    ]


def settings_table(found: list[Setting]) -> str:
    """Return the table of settings as Markdown."""
    rows = [
        (code(each.key), each.kind, code(each.default), from_docstring(each.meaning))
        for each in found
    ]
    return table(("Key", "Type", "Default", "Meaning"), rows)


def also_set(group: str, name: str) -> str:
    """Return the words that a choice sets outside its group, as a data set sets its network."""
    path = CONF / group / f"{name}.yaml"
    defaults = yaml.safe_load(path.read_text()).get("defaults", [])
    words = [
        f"{key.removeprefix('override /')}={value}"
        for entry in defaults
        for key, value in entry.items()
    ]
    words += [
        f"{key.name}={key.default}"
        for key in read_file(path).keys.values()
        if "." not in key.name and path.read_text().startswith(GLOBAL)
    ]
    return f"Also sets {', '.join(map(code, words))}." if words else ""


def component(group: str, name: str, heading: str = "## {name}") -> str:
    """Return the section about one component."""
    module = importlib.import_module(registry.module_of(group, name))
    file = read_file(CONF / group / f"{name}.yaml")
    parts = [
        heading.format(name=name),
        from_docstring(file.about) or summary(module, registry.component_class(group, name)),
        details(module),
    ]
    found = settings(group, name)
    parts += [also_set(group, name), settings_table(found) if found else ""]
    parts += ["\n".join(["```bash", *file.examples, "```"])] if file.examples else []
    return "\n\n".join(part for part in parts if part)


def page(title: str, introduction: str, *groups: str) -> str:
    """Return a page with every component of some groups."""
    parts = [f"# {title}", introduction]
    for group in groups:
        parts += [component(group, name) for name in registry.names(group)]
    return "\n\n".join(parts) + "\n"


def index(title: str, introduction: str, group: str) -> str:
    """Return a page that lists the components of a group, each with a page of its own."""
    rows = [
        (
            f"[{name}]({name}.md)",
            from_docstring(read_file(CONF / group / f"{name}.yaml").about),
        )
        for name in registry.names(group)
    ]
    return f"# {title}\n\n{introduction}\n\n{table(('Choice', 'Content'), rows)}\n"
