"""The entry point of the ``univarfl`` command."""

import univarfl.application  # noqa: F401  (makes server_app importable)


def main() -> None:
    """Run the command."""
    from server_app.cli.main import main as run_command  # noqa: PLC0415

    run_command()
