"""The settings of a site: a machine that is a client with its own data.

They come from the ``--node-config`` with which the site's owner starts its SuperNode. Nothing that
a coordinator sends can change them.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError, field_validator

from task.errors import SiteError
from task.extensions import normal, run_by_clients
from task.machine.files import from_home, user_state_directory
from task.privacy.settings import Delta

NodeConfig = Mapping[str, object]

# Settings of simulated nodes; Flower's simulation gives each the first two.
PARTITION_ID, NUM_PARTITIONS = "partition-id", "num-partitions"
IN_PROCESS = "in-process"  # does it share the server's process?

SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SITE_NAME_FORM = "1 to 64 letters, digits, '.', '_' and '-', with a letter or digit first"
FLOWERS_OWN = ("partition-id", "num-partitions")  # Flower's examples set them for every SuperNode


class Site(BaseModel):
    """One site's settings, by the keys of its ``--node-config``.

    Attributes:
        name: ``site``, its name in the experiment; by default the name of its directory.
        directory: ``data-dir``, an absolute path to its images.
        device: ``device``, the device that it trains on.
        memory: ``memory-dir``, an absolute path for client state; None: `user_state_directory`.
        models: ``models-dir``, an absolute path. If a method leaves a part of the model with each
            client, the site's part of the final model is kept there. None means that it is not.
        key: ``key``, an absolute path to its private key, with which it signs its replies. ``deploy
            site`` sets it.
        max_norm: ``max-norm``, the largest L2 norm of an update that it sends, above 0. A larger
            update is scaled down to it. None means no limit.
        max_epochs: ``max-epochs``, the largest number of local epochs per round that it trains.
        max_seconds: ``max-seconds``, the longest time that it works on one message, at least 1.
        max_batch_size: ``max-batch-size``, the largest batch that it trains on.
        max_model_megabytes: ``max-model-megabytes``, the largest model that it trains.
        keep_free_megabytes: ``keep-free-megabytes``, what it leaves free on the disk of its copies
            of images, client state and models.
        tell_labels: ``tell-labels``, whether it reports its number of images per class.
        tell_statistics: ``tell-statistics``, whether ``after=ccvr`` may have the moments of its
            features, closed-form methods such as ``method=ridge`` and ``after=ridge`` their sums,
            and ``model.statistics=exact`` the moments of the inputs of batch norm.
        max_epsilon: ``max-epsilon``, the largest epsilon that any of its images may spend over all
            runs, above 0. The site then trains only with secret noise of its own. None means no
            limit, and no ledger.
        delta: ``delta``, the delta of this epsilon, above 0 and at most 0.001.
        require_approval: ``require-approval``, whether it trains only in experiments that its owner
            has approved.
        require_secure: ``require-secure``, whether it takes part in masked rounds only.
        equal_weights: ``equal-weights``, whether it reports masked updates only if all sites weigh
            the same, so that weights do not tell them apart. None means `require_secure`.
        allow_nearest: ``allow-nearest``, whether it then takes part with
            ``secure.rounding=nearest``, too.
        roster: ``roster``, an absolute path to a directory with the public key of each site of the
            federation, NAME.pub, which its owner has collected. Masked rounds need it.
        colluding: ``colluding``, how many of these sites may work together with the coordinator.
            None means the largest number below a third of them.
        max_share: ``max-share``, the largest weight of one site in a masked sum, up to 1.
        extensions: ``extensions``, the installed packages whose methods and data sources it may
            run, beside those of univarfl. Flower's settings take no lists, so text with spaces
            between the names is read too.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_by_name=True
    )

    name: Annotated[str, Field(alias="site")]
    directory: Annotated[str, Field(alias="data-dir")]
    device: Literal["auto", "cpu", "cuda"] = "auto"
    memory: Annotated[str | None, Field(alias="memory-dir")] = None
    models: Annotated[str | None, Field(alias="models-dir")] = None
    key: str | None = None
    max_norm: Annotated[float | None, Field(alias="max-norm", gt=0)] = None
    max_epochs: Annotated[int, Field(alias="max-epochs", ge=1)] = 1000
    max_seconds: Annotated[int, Field(alias="max-seconds", ge=1)] = 86_400
    max_batch_size: Annotated[int, Field(alias="max-batch-size", ge=2)] = 4096
    max_model_megabytes: Annotated[int, Field(alias="max-model-megabytes", ge=1)] = 2000
    keep_free_megabytes: Annotated[int, Field(alias="keep-free-megabytes", ge=0)] = 1000
    tell_labels: Annotated[bool, Field(alias="tell-labels")] = False
    tell_statistics: Annotated[bool, Field(alias="tell-statistics")] = False
    max_epsilon: Annotated[float | None, Field(alias="max-epsilon", gt=0)] = None
    delta: Delta = 1e-5
    require_approval: Annotated[bool, Field(alias="require-approval")] = False
    require_secure: Annotated[bool, Field(alias="require-secure")] = False
    equal_weights: Annotated[bool | None, Field(alias="equal-weights")] = None
    allow_nearest: Annotated[bool, Field(alias="allow-nearest")] = False
    roster: str | None = None
    colluding: Annotated[int | None, Field(ge=0)] = None
    max_share: Annotated[float, Field(alias="max-share", gt=0, le=1)] = 0.75
    extensions: Annotated[tuple[str, ...], PlainSerializer(" ".join)] = ()

    @field_validator("directory", "memory", "models", "key", "roster")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        if path is None:
            return None
        absolute = from_home(path)
        if not absolute.is_absolute():
            raise ValueError("must be an absolute path")
        return str(absolute)

    @field_validator("extensions", mode="before")
    @classmethod
    def _packages(cls, names: object) -> object:
        if isinstance(names, str):
            names = names.split()
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return tuple(normal(name) for name in names)
        raise ValueError("must be a list of the names of packages")

    @field_validator("name")
    @classmethod
    def _safe(cls, name: str) -> str:
        if not SITE_NAME.fullmatch(name):
            raise ValueError(f"must be {SITE_NAME_FORM}")
        return name

    def check_extensions(self, experiment: str) -> None:
        """Refuse an experiment with code of a package that this site does not list.

        Args:
            experiment: a `task.config.LocalConfig` as JSON.

        Raises:
            SiteError: it needs such a package, whose code has not been imported.
        """
        for each in run_by_clients(experiment):
            if each.package not in self.extensions:
                raise SiteError(
                    f"site {self.name} does not run code of the package {each.package!r}, which "
                    f"{each.group}={each.name} needs; its owner can add it to extensions in "
                    "site.toml"
                )

    def check_telling(self, of: str, otherwise: str = "") -> None:
        """Refuse to send statistics, if the owner does not allow it.

        Args:
            of: what they describe.
            otherwise: another way out, to follow the first.

        Raises:
            SiteError: the owner does not.
        """
        if not self.tell_statistics:
            raise SiteError(
                f"site {self.name} does not send statistics of its {of}; its owner can set "
                f"tell-statistics = true in site.toml{otherwise}"
            )

    def check_without_noise(self, what: str) -> None:
        """Refuse to send what has no noise, if the owner limits the loss of privacy.

        Args:
            what: the rest of the error, which names it.

        Raises:
            SiteError: the owner does.
        """
        if self.max_epsilon is not None:
            raise SiteError(
                f"site {self.name} limits its privacy loss (its max-epsilon), and {what}"
            )

    @property
    def wants_equal_weights(self) -> bool:
        """Whether it reports masked updates only if all sites weigh the same."""
        return self.require_secure if self.equal_weights is None else self.equal_weights

    @property
    def state_directory(self) -> Path:
        """The directory for the client state of methods."""
        return Path(self.memory) if self.memory else user_state_directory()

    @classmethod
    def from_node_config(cls, node_config: NodeConfig) -> "Site":
        """Return the site that a SuperNode's settings describe.

        Raises:
            SiteError: a setting is unknown or has a wrong value. The message contains no path.
        """
        settings = {key: value for key, value in node_config.items() if key not in FLOWERS_OWN}
        settings["site"] = site_name(node_config)
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            key = ".".join(map(str, first["loc"]))
            problem = first["msg"].removeprefix("Value error, ")
            if first["type"] == "extra_forbidden":
                known = ", ".join(field.alias or name for name, field in cls.model_fields.items())
                problem = f"is not a setting of a site; choose from {known}"
            text = f"site {site_name(node_config)}, {key}: {problem.lower()}"
            raise SiteError(text if text.isprintable() else repr(text)) from None


def site_name(node_config: NodeConfig) -> str:
    """Return a site's name from its settings; by default the name of its directory."""
    return str(node_config.get("site", Path(str(node_config.get("data-dir", "?"))).name))
