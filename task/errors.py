"""Errors that a person can cause, worded for the person who reads them."""

from typing import Any, NoReturn


class ConfigError(ValueError):
    """A setting that cannot be used.

    Its text is one line, ``key=value: what is allowed``, fit to be shown as it is.
    """

    def __init__(self, key: str, value: Any, allowed: str) -> None:
        super().__init__(f"{key}={value}: {allowed}")
        self.key, self.value, self.allowed = key, value, allowed

    def under(self, group: str) -> "ConfigError":
        """The same error with its key inside a configuration group."""
        return ConfigError(f"{group}.{self.key}", self.value, self.allowed)

    def __reduce__(self) -> tuple[type["ConfigError"], tuple[str, Any, str]]:
        return ConfigError, (self.key, self.value, self.allowed)


class DataError(RuntimeError):
    """A data set's files cannot be used; the text names the file and the reason."""


class DeviceError(RuntimeError):
    """A device that was asked for is not there."""


class SiteError(RuntimeError):
    """The experiment and a machine disagree on whose data are trained on; the text says how."""


class TrainingError(RuntimeError):
    """A client's local training cannot start or has gone wrong; the text says how."""


class RunError(RuntimeError):
    """A run has ended without a model; the text says why and where to look."""


def refuse(owner: object, field: str, allowed: str) -> NoReturn:
    """Raise a `ConfigError` for a dataclass field whose value is not allowed."""
    raise ConfigError(field, getattr(owner, field), allowed)


def system_reason(error: OSError) -> str:
    """Why the system refused, in its own words, to stand inside a sentence."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
