"""How a command ends before its run does."""


class InterruptedRunError(Exception):
    """A person ended the run; the text says how to resume it, if that is possible."""
