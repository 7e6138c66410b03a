"""The entry point of the ``univarfl`` command."""

import gc

import univarfl.application  # noqa: F401  (makes server_app importable)


def main() -> None:
    """Run the command."""
    from server_app.cli.main import main as run_command  # noqa: PLC0415

    try:
        run_command()
    finally:
        gc.freeze()  # or Python would look for cycles in all of PyTorch at the end, for a second
