"""Why a run cannot continue."""


class RunFailedError(RuntimeError):
    """The run cannot continue; the text says why."""


class InterruptedRunError(Exception):
    """A person ended the run; the text says how to resume it, if that is possible."""


class WorkerLostError(RunFailedError):
    """A simulated worker's process has ended, and Ray will not start another one in this run."""
