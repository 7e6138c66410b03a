"""The fork server of a sweep; it imports PyTorch once, and every run is a fork of it."""

import multiprocessing
from multiprocessing import forkserver

CONTEXT = multiprocessing.get_context("forkserver")


def warm_up(*modules: str) -> None:
    """Start the fork server and preload these modules in parallel with our own imports."""
    CONTEXT.set_forkserver_preload(list(modules))
    forkserver.ensure_running()
