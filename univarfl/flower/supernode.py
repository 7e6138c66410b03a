"""Run a SuperNode whose process ends with its loop, or with any of its threads.

Called as ``python supernode.py PROGRAM ARGUMENT...`` with the path of ``flower-supernode``.
Flower's retry gives up on some errors of a connection: its loop returns, and the process stays,
because its local API runs in another thread. An error in the thread of its heartbeats ends only
that thread. The coordinator then counts the site as absent, and nothing at the site notices it.

Flower's requests do not tell two machines with one key apart. So each request gets a header that
names this machine, and what the coordinator's gate notes about another one is printed.

This file imports no other module of the project, so that it starts at once.
"""

import os
import runpy
import sys
import threading
import traceback
from typing import Any, NoReturn

import httpx

MACHINE = "univarfl-machine"  # a request's header
MACHINE_VARIABLE = "UNIVARFL_MACHINE"  # the environment variable with its value
NOTICE = "univarfl-notice"  # an answer's header
LONGEST_NOTICE, MOST_NOTICES = 500, 20
STOPPED = 75  # the exit code when the loop or a thread has ended; that of a temporary failure


def run(words: list[str]) -> NoReturn:
    """Run a program of Python in this process, and end with it.

    Args:
        words: the path of the program, and its arguments.
    """
    threading.excepthook = end_with_thread
    if machine := os.environ.get(MACHINE_VARIABLE):
        name_machine(machine)
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


def name_machine(machine: str) -> None:
    """Send the name of this machine with each request, and print each new notice of an answer."""
    send, said = httpx.Client.send, set[str]()

    def named(client: httpx.Client, request: httpx.Request, **words: Any) -> httpx.Response:
        request.headers[MACHINE] = machine
        answer = send(client, request, **words)
        notice = answer.headers.get(NOTICE, "")[:LONGEST_NOTICE]
        if notice and notice not in said and len(said) < MOST_NOTICES:
            said.add(notice)
            print(f"WARNING :   {notice}", flush=True)
        return answer

    httpx.Client.send = named  # type: ignore[method-assign, assignment]


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
