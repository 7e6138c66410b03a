"""Why a run cannot go on."""


class RunFailedError(RuntimeError):
    """The run cannot go on; the text says why."""


class InterruptedRunError(Exception):
    """A person ended the run; the text says how to go on with it, if it can be."""


class WorkerLostError(RunFailedError):
    """A simulated worker's process has ended, and Ray will not start another one in this run."""
