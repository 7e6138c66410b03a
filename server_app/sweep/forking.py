"""The server that forks a sweep's runs, which has imported PyTorch once for all of them."""

import multiprocessing
from multiprocessing import forkserver

CONTEXT = multiprocessing.get_context("forkserver")


def warm_up(*modules: str) -> None:
    """Start it, so that it imports what runs need while this process still does so itself."""
    CONTEXT.set_forkserver_preload(list(modules))
    forkserver.ensure_running()
