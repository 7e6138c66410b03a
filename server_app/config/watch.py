"""The logs and models that a run keeps in addition to its record."""

from importlib.util import find_spec
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from task.config import Strict
from task.errors import ConfigError


class Watch(Strict):
    """The logs and models that are kept in addition to the record."""

    tensorboard: bool
    mlflow: str | None
    models_every: Annotated[int, Field(ge=1)] | None

    @model_validator(mode="after")
    def _check_mlflow(self) -> "Watch":
        if self.mlflow is not None and has_credentials(self.mlflow):
            allowed = (
                "must be an address without a user and password, because the record keeps it; set "
                "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD; a database has a file for "
                "passwords, such as ~/.pgpass"
            )
            raise ConfigError("watch.mlflow", "***", allowed)
        if self.mlflow is not None and find_spec("mlflow") is None:
            raise ConfigError("watch.mlflow", self.mlflow, "needs MLflow: uv sync --extra mlflow")
        return self


def has_credentials(address: str) -> bool:
    """Return whether an address has a password in it, or, for a web server, a user or token."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "@" in address
    return bool(parts.password or (parts.username and parts.scheme in ("http", "https")))
