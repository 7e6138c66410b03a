"""New processes: forks of a fork server, which has imported PyTorch once."""

import multiprocessing
import signal
import sys
import threading
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import forkserver

CONTEXT = multiprocessing.get_context("forkserver")


def warm_up(*modules: str) -> None:
    """Start the fork server and preload these modules in parallel with our own imports."""
    CONTEXT.set_forkserver_preload(list(modules))
    with ignored_interrupts():
        forkserver.ensure_running()


@contextmanager
def ignored_interrupts() -> Iterator[None]:
    """Let processes that are started here ignore Ctrl-C, which a terminal sends to all of them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def without_callers_script() -> Iterator[None]:
    """Keep new processes from running the caller's script again, as multiprocessing would."""
    modules: Mapping[str, types.ModuleType] = sys.modules
    caller = modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = caller
