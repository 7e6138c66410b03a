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
        # Or Python would look for cycles in all of PyTorch at the end, for a second. Triton, which
        # second derivatives import, would report each object that is then left as a leak.
        if "triton" not in sys.modules:
            gc.freeze()
