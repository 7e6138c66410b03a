"""Why a run cannot continue."""


class RunFailedError(RuntimeError):
    """The run cannot continue; the text says why."""


class WorkerLostError(RunFailedError):
    """A simulated worker's process has ended, and Ray will not start another one in this run."""


class NotMeasuredError(Exception):
    """The statistics of batch norm cannot be measured; the text says why."""


class CommandEndedError(BaseException):
    """The command that submitted the run has ended, and the run must end too.

    Like `KeyboardInterrupt` it can be raised anywhere, so ``except Exception`` does not catch it.
    """
