"""The entry point of the ``univarfl`` command."""

import gc
import sys

import univarfl.application  # noqa: F401  (makes server_app importable)

INTERRUPTED = 130


def main() -> None:
    """Run the command; Ctrl-C ends it without a traceback, also while it is being imported."""
    try:
        from univarfl.cli.main import main as run_command  # noqa: PLC0415

        run_command()
    except KeyboardInterrupt:
        print("univarfl: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    finally:
        # gc.freeze() saves the last garbage collection, which takes a second with PyTorch. It is
        # not called if Triton is imported: Triton would report the objects left as leaks.
        if "triton" not in sys.modules:
            gc.freeze()
