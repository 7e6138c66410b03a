"""The reference of the Python interface, from its docstrings and signatures."""

import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import univarfl
from docs.generator.markdown import code, from_docstring, table

INTRODUCTION = """# Python

`import univarfl` takes a fraction of a second; PyTorch and Flower are imported when they are used.
Settings are those of [`univarfl train`](commands/index.md): see [Settings](settings.md). The
notebook `examples/notebook.ipynb` compares two methods. These functions return
[runs](api-runs.md)."""
SECTION = re.compile(r"^(Args|Attributes|Raises|Returns):$")
ENTRY = re.compile(r"^    (\S[^:]*): (.*)$")
FUNCTIONS = ("train", "sweep", "load_run", "load_runs")
NAMES = ("methods", "strategies", "data_sets", "models")
VALUES = (property, cached_property)
RUNS = ("Run", "Runs")
PARTS = ("LocalTraining", "MethodStrategy")
ERRORS = ("ConfigError", "DataError", "DeviceError", "RunError")


def page() -> str:
    """Return the page of the functions and errors."""
    parts = [INTRODUCTION]
    parts += [section(f"univarfl.{name}", getattr(univarfl, name), "##") for name in FUNCTIONS]
    parts += ["## Names", listed(NAMES)]
    parts += ["## Errors", "Each has a message of one line, which the command would print."]
    return "\n\n".join([*parts, listed(ERRORS)]) + "\n"


def runs_page() -> str:
    """Return the page of what training returns."""
    returned = "`univarfl.train` returns a `Run`, and `univarfl.sweep` a `Runs`."
    return classes_page(["# Runs in Python", returned], RUNS)


def parts_page() -> str:
    """Return the page of the classes for a network and a loop of one's own."""
    guide = "[Use parts in an app of your own](../how-to/use-parts-in-your-app.md) shows both."
    return classes_page(["# Parts in Python", guide], PARTS)


def classes_page(parts: list[str], names: Sequence[str]) -> str:
    """Return a page of classes.

    Args:
        parts: its beginning.
        names: of the classes.
    """
    for name in names:
        found = dict(members(getattr(univarfl, name)))
        values = [(each, prose(it)) for each, it in found.items() if isinstance(it, VALUES)]
        parts += [f"## univarfl.{name}", markdown(getattr(univarfl, name))]
        parts.append(table((f"Value of a `{name}`", "Meaning"), [(code(a), b) for a, b in values]))
        for each, member in found.items():
            if not isinstance(member, VALUES):
                parts.append(section(f"{name}.{each}", member, "###"))
    return "\n\n".join(parts) + "\n"


def listed(names: Sequence[str]) -> str:
    """Return a list of public names with the first sentence about each."""
    return "\n".join(f"- `univarfl.{name}`: {prose(getattr(univarfl, name))}" for name in names)


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public members that a class defines itself, in the order of its code."""
    for name, member in vars(kind).items():
        if not name.startswith("_") and member.__doc__:
            yield name, member


def section(name: str, member: Any, level: str) -> str:
    """Return the section about a function, method or property."""
    call = ""
    if inspect.isfunction(member):
        text = f"{name.rpartition('.')[2]}{inspect.signature(member)}"
        call = f"```python\n{text.replace('self, ', '').replace('(self)', '()')}\n```\n\n"
    return f"{level} {name}\n\n{call}{markdown(member)}"


def prose(member: Any) -> str:
    """Return a docstring without its sections, on one line."""
    text = re.split(r"\n(?:Args|Raises|Attributes):", inspect.getdoc(member) or "")[0]
    return from_docstring(" ".join(text.split()))


def markdown(member: Any) -> str:
    """Return a docstring in Google's form as Markdown, each paragraph on one line."""
    lines: list[str] = []
    inside = ""
    for line in (inspect.getdoc(member) or "").splitlines():
        entry = ENTRY.match(line)
        if found := SECTION.match(line):
            inside = found[1]
            lines += [f"**{inside}**", ""]
        elif entry and inside not in ("", "Returns"):
            lines.append(f"- `{entry[1]}`: {from_docstring(entry[2])}")
        elif line.startswith("    ") and not inside:
            lines.append(line)  # a block of code
        elif line and lines and lines[-1] and not lines[-1].startswith("    "):
            lines[-1] += f" {from_docstring(line.strip())}"
        else:
            lines.append(from_docstring(line.strip()))
    return "\n".join(re.sub("::$", ":", line) for line in lines)
