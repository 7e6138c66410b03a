"""The list of commands: grouped in the help, and with answers to mistyped commands and options."""

from collections import defaultdict

import click
from typer.core import TyperGroup

from univarfl.cli.arguments import OVERRIDES

OTHERS = "Commands"


class Commands(TyperGroup):
    """A list of commands under the headings that `rich_help_panel` gives them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, one section for each heading."""
        sections: dict[str, list[click.Command]] = defaultdict(list)
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                sections[getattr(command, "rich_help_panel", None) or OTHERS].append(command)
        widest = max(len(command.name or "") for part in sections.values() for command in part)
        limit = formatter.width - 6 - widest
        for heading, commands in sections.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        ((command.name or "").ljust(widest), command.get_short_help_str(limit))
                        for command in commands
                    ]
                )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the named command; answer an override in its place."""
        if args and "=" in args[0]:
            ctx.fail(f"{args[0]} is no command; write univarfl train {args[0]}")
        return super().resolve_command(ctx, args)


def answer_to_option(error: click.NoSuchOption, words: list[str]) -> str:
    """Return the answer to an unknown option; it may be an override, as in ``--lr 0.1``.

    Args:
        error: what click found.
        words: the command line without the program's name.
    """
    # Imported here because it reads conf/, and `--help` must be quick.
    from server_app.config.vocabulary import read_form  # noqa: PLC0415

    context = error.ctx
    at_root = context is not None and context.parent is None
    takes_overrides = context is not None and any(
        parameter.metavar == OVERRIDES for parameter in context.command.params
    )
    if at_root or takes_overrides:
        for word, after in zip(words, [*words[1:], ""], strict=True):
            if word.partition("=")[0].startswith(error.option_name):
                typed, meant = read_form([word, after])
                if meant:
                    return f"{typed}: write {'univarfl train ' if at_root else ''}{meant}"
    return error.format_message()
