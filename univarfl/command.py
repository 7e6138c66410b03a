"""The entry point of the ``univarfl`` command."""

import gc
import sys

import univarfl.application  # noqa: F401  (makes server_app importable)


def main() -> None:
    """Run the command."""
    from server_app.cli.main import main as run_command  # noqa: PLC0415

    try:
        run_command()
    finally:
        # gc.freeze() saves the last garbage collection, which takes a second with PyTorch. It is
        # not called if Triton is imported: Triton would report the objects left as leaks.
        if "triton" not in sys.modules:
            gc.freeze()
