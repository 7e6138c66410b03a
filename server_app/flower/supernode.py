"""Run a SuperNode whose process ends with its loop, or with any of its threads.

Called as ``python supernode.py PROGRAM ARGUMENT...`` with the path of ``flower-supernode``.
Flower's retry gives up on some errors of a connection: its loop returns, and the process stays,
because its local API runs in another thread. An error in the thread of its heartbeats ends only
that thread. The coordinator then counts the site as absent, and nothing at the site notices it.

This file imports no other module of the project, so that it starts at once.
"""

import os
import runpy
import sys
import threading
import traceback
from typing import NoReturn

STOPPED = 75  # the exit code when the loop or a thread has ended; that of a temporary failure


def run(words: list[str]) -> NoReturn:
    """Run a program of Python in this process, and end with it.

    Args:
        words: the path of the program, and its arguments.
    """
    threading.excepthook = end_with_thread
    sys.argv = words
    code = STOPPED
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        code = exit_code(end)
    except BaseException:
        traceback.print_exc()
        code = 1
    leave(code)


def exit_code(end: SystemExit) -> int:
    """Return the exit code of a program; without one, its loop has returned."""
    if end.code is None:
        return STOPPED
    if isinstance(end.code, int):
        return end.code
    print(end.code, file=sys.stderr)
    return 1


def end_with_thread(error: threading.ExceptHookArgs) -> None:
    """End this process, because one of its threads has ended with an error."""
    name = error.thread.name if error.thread else "unknown"
    print(f"ERROR :     thread {name} has ended: {error.exc_value!r}", file=sys.stderr)
    leave(STOPPED)


def leave(code: int) -> NoReturn:
    """End this process without waiting for its threads."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # nobody reads it
            continue
    os._exit(code)


if __name__ == "__main__":
    run(sys.argv[1:])
