"""The reference of the ``univarfl`` command, from its Typer application."""

import inspect
from collections.abc import Iterator

import click
import typer

from docs.generator.markdown import code, table
from univarfl.cli.main import application

INTRODUCTION = """# Commands

Every command prints its help with `--help`. Words of the form `key=value` are
[settings](../settings.md).
"""
NO_CONTEXT = click.Context(click.Command("univarfl"))


def commands(parent: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    """Yield each command below a group, with the words that call it; groups come first."""
    for name, command in parent.commands.items():
        yield f"{prefix} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")


def all_commands() -> dict[str, click.Command]:
    """Return every command by the words that call it."""
    group = typer.main.get_command(application)
    assert isinstance(group, click.Group)
    return dict(commands(group, "univarfl"))


def section(words: str, command: click.Command, level: str) -> str:
    """Return the section about one command: usage, help and options."""
    context = click.Context(command, info_name=words)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = inspect.cleandoc(command.help or "").replace("\b\n", "").strip()
    parts = [f"{level} {words}", f"``` {{.text .help}}\n{words} {usage}\n\n{lines}\n```"]
    options = [row for row in map(option, command.get_params(context)) if row]
    if options:
        parts.append(table(("Option", "Default", "Meaning"), options))
    return "\n\n".join(parts)


def option(parameter: click.Parameter) -> tuple[str, str, str] | None:
    """Return the row of one option; None for arguments, whose names the usage shows."""
    if not isinstance(parameter, click.Option) or "--help" in parameter.opts:
        return None
    value = "" if parameter.is_flag else f" {parameter.make_metavar(NO_CONTEXT)}"
    default = "" if parameter.default is None or parameter.is_flag else str(parameter.default)
    return code(", ".join(parameter.opts) + value), code(default), parameter.help or ""


def summary(command: click.Command) -> str:
    """Return the first sentence of a command's help."""
    return " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split())


def index() -> str:
    """Return the page that lists the commands."""
    rows = [
        (f"[`{words}`]({place(words)})", summary(command))
        for words, command in all_commands().items()
    ]
    return f"{INTRODUCTION}\n{table(('Command', 'Purpose'), rows)}\n"


def place(words: str) -> str:
    """Return the page of a command, with the anchor of a command within a group."""
    _, first, *rest = words.split()
    return f"{first}.md" + (f"#{'-'.join(words.split())}" if rest else "")


def pages() -> dict[str, str]:
    """Return a page for each command, with the commands of a group on one page."""
    found: dict[str, list[str]] = {}
    for words, command in all_commands().items():
        sections = found.setdefault(words.split()[1], [])
        sections.append(section(words, command, "##" if sections else "#"))
    return {name: "\n\n".join(sections) + "\n" for name, sections in found.items()}
