"""Errors that users and other parties can cause; users see their messages as they are."""

from typing import Any, NoReturn

DIVERGED = "training diverged"  # begins the reason if a number is not finite


class ConfigError(ValueError):
    """A setting has a value that is not allowed.

    The message is one line: ``key=value: what is allowed``.

    Args:
        key: the setting, with dots between groups.
        value: its value.
        allowed: what is allowed, starting with "must" or a verb.
        problem: pydantic's name for the type of the problem, if pydantic found it.
    """

    def __init__(self, key: str, value: Any, allowed: str, problem: str = "") -> None:
        setting = f"{key}={value}".replace("\n", "\\n")
        super().__init__(f"{setting}: {allowed}")
        self.key, self.value, self.allowed, self.problem = key, value, allowed, problem

    def under(self, group: str) -> "ConfigError":
        """Return the same error with `group.` in front of its key."""
        return ConfigError(f"{group}.{self.key}", self.value, self.allowed, self.problem)

    def __reduce__(self) -> tuple[type["ConfigError"], tuple[str, Any, str, str]]:
        return ConfigError, (self.key, self.value, self.allowed, self.problem)


class DataError(RuntimeError):
    """A data set cannot be read; the message names the file and the reason."""


class DeviceError(RuntimeError):
    """The configured device does not exist."""


class SiteError(RuntimeError):
    """A site's settings are invalid, or do not fit the experiment."""


class CodeMismatchError(RuntimeError):
    """The server and a worker run different code, so nothing may be trained."""


class TrainingError(RuntimeError):
    """A client's local training cannot start, or failed."""


class UntrainableDataError(TrainingError):
    """Training failed because of the client's images; the failure itself reveals something."""


class RunError(RuntimeError):
    """A run ended without a model; the message says why and where to look."""


def diverged(problem: str) -> UntrainableDataError:
    """Return the error of a number that is not finite, or too large to be summed.

    Args:
        problem: which number it is.
    """
    cure = "lower optim.lr or set optim.max_gradient_norm"
    return UntrainableDataError(f"{DIVERGED}: {problem}; {cure}")


def out_of_time(place: str) -> TrainingError:
    """Return the error of a training that did not finish before the deadline of its round.

    Args:
        place: the epoch or step that it reached.
    """
    return TrainingError(
        f"out of time in {place}; raise federation.round_timeout or lower local_epochs"
    )


def refuse(owner: object, field: str, allowed: str) -> NoReturn:
    """Raise a `ConfigError` for a dataclass field whose value is not allowed."""
    raise ConfigError(field, getattr(owner, field), allowed)


def system_reason(error: OSError) -> str:
    """Return the operating system's reason, starting in lower case."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


class ProtocolError(ValueError):
    """A message that does not have the agreed form; the text names the field and the reason."""
