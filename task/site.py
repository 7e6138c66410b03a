"""A machine that is a client with data of its own: what it says of itself, and what it allows.

All of it comes from the settings that the machine's owner starts its SuperNode with
(``--node-config``). Nothing that a coordinator sends changes any of it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from task.errors import SiteError
from task.files import from_home

NodeConfig = Mapping[str, object]

FLOWERS_OWN = ("partition-id", "num-partitions")  # its examples give them to every SuperNode


class Site(BaseModel):
    """One site's settings, by the keys of its ``--node-config``.

    Attributes:
        name: ``site``, as the experiment lists it; its directory's name if it does not say.
        directory: ``data-dir``, its images, an absolute path.
        device: ``device``, what it trains on.
        memory: ``memory-dir``, where its client keeps what a method remembers, an absolute path;
            None for the user's directory for state.
        most_norm: ``max-norm``, the Euclidean length of what it sends at most, measured from the
            global model it was sent; longer updates are shortened to it.
        most_epochs: ``max-epochs``, the local epochs a round it trains at most.
        tells_labels: ``tell-labels``, whether it tells how many images it has of each class.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_by_name=True
    )

    name: Annotated[str, Field(alias="site", min_length=1)]
    directory: Annotated[str, Field(alias="data-dir")]
    device: Literal["auto", "cpu", "cuda"] = "auto"
    memory: Annotated[str | None, Field(alias="memory-dir")] = None
    most_norm: Annotated[float | None, Field(alias="max-norm", gt=0)] = None
    most_epochs: Annotated[int | None, Field(alias="max-epochs", ge=1)] = None
    tells_labels: Annotated[bool, Field(alias="tell-labels")] = False

    @field_validator("directory", "memory")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        if path is None:
            return None
        absolute = from_home(path)
        if not absolute.is_absolute():
            raise ValueError("must be an absolute path")
        return str(absolute)

    @field_validator("name")
    @classmethod
    def _printable(cls, name: str) -> str:
        if not name.isprintable():
            raise ValueError("must be printable")
        return name

    @property
    def memory_place(self) -> Path:
        """Where its client keeps what a method remembers."""
        return Path(self.memory) if self.memory else state_directory()

    @classmethod
    def of(cls, node_config: NodeConfig) -> "Site":
        """The site that a SuperNode's settings describe.

        Raises:
            SiteError: a setting is unknown or has another form. Its text names no path.
        """
        settings = {key: value for key, value in node_config.items() if key not in FLOWERS_OWN}
        settings["site"] = name_of(node_config)
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            key, what = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
            if first["type"] == "extra_forbidden":
                known = ", ".join(field.alias or name for name, field in cls.model_fields.items())
                what = f"is no setting of a site; they are {known}"
            said = f"site {name_of(node_config)}, {key}: {what.lower()}"
            raise SiteError(said if said.isprintable() else repr(said)) from None


def state_directory() -> Path:
    """Where the user's programs keep what lasts, this one's part of it."""
    return from_home(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "univarfl"


def name_of(node_config: NodeConfig) -> str:
    """What a site calls itself; its directory's name if it does not say."""
    return str(node_config.get("site", Path(str(node_config.get("data-dir", "?"))).name))
