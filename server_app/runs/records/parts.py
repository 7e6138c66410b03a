"""The parts of a ``run.json``, and what values they can have."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from server_app.config.differences import deciding
from server_app.runs.records.metrics import METRICS
from server_app.runs.records.tables import RecordError, parse_number

if TYPE_CHECKING:
    from server_app.config.tables import Table

WHOLE = {"seed": 0, "rounds": 1, "num_clients": 1}  # settings, and the least value of each
MOST = 10**18
GROUPS = (  # of the configuration, besides the method
    "after", "augmentation", "clock", "data", "federation", "guard", "model", "optim",
    "participation", "partition", "privacy", "runtime", "secure", "stop", "strategy", "sums",
    "task", "train", "tune", "update", "watch",
)  # fmt: skip


def usable_scores(found: object) -> object:
    """Return scores by metric, without those of unknown metrics that are no numbers.

    Raises:
        RecordError: a known metric has a value that it cannot have.
    """
    if not isinstance(found, Mapping):
        return found
    return {
        name: parse_number(repr(value), name, "a score")
        for name, value in found.items()
        if name in METRICS or type(value) in (int, float)
    }


def texts(found: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping to texts; one wrong value of many is enough to refuse it.

    Raises:
        RecordError: a value is no text.
    """
    if not all(isinstance(value, str) for value in found.values()):
        raise RecordError("a value is no text")
    return found


def settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration whose values that readers use are checked.

    Raises:
        RecordError: one has a wrong type, or is out of its range.
    """
    method = config.get("method")
    if not isinstance(method, dict) or not isinstance(method.get("name"), str):
        raise RecordError("it has no method")
    for key, least in WHOLE.items():
        if type(config.get(key)) is not int or not least <= config[key] <= MOST:
            raise RecordError(f"it has no {key}")
    if type(config.get("rho")) not in (int, float) or not 0 < config["rho"] <= 1:
        raise RecordError("it has no rho")
    for name in GROUPS:
        if not isinstance(config.get(name, {}), dict):
            raise RecordError(f"{name} is not a mapping")
    try:
        tables_of(config), deciding(config)
    except (ValidationError, RecursionError):
        raise RecordError("it has published numbers or settings of another form") from None
    return config


def tables_of(config: Mapping[str, Any]) -> "list[Table]":
    """Return the published tables in a run's configuration.

    Raises:
        ValidationError: they have another form.
    """
    if not config.get("published"):
        return []
    # Imported here because it imports all of `task.config`, and few runs have tables.
    from server_app.config.tables import TABLES  # noqa: PLC0415

    return TABLES.validate_python(config["published"])


Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Size = Annotated[int, Field(ge=1, lt=1 << 50)]
# Of a long list one error is enough: pydantic would keep millions.
Names = Annotated[list[str], Field(fail_fast=True)]
Texts = Annotated[dict[str, Any], AfterValidator(texts)]
Scores = Annotated[Mapping[str, float], BeforeValidator(usable_scores)]
Settings = Annotated[dict[str, Any], AfterValidator(settings)]


class Part(BaseModel):
    """A part of a record; entries that this version does not know are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)

    def entries(self) -> dict[str, Any]:
        """Return the entries that the record has, as JSON can hold them."""
        return self.model_dump(exclude_unset=True)


class Engine(Part):
    """How the run was started."""

    name: str
    run_id: str


class Worker(Part):
    """A SuperNode that has served the run."""

    site: str
    device: str
    runtime: str
    compiled: bool
    host: str


class ManyClients(Part):
    """A summary of the image counts of many clients; see `recorded_counts`."""

    count: Count
    min: Count
    median: Count
    max: Count
    deciles: Annotated[list[Count], Field(fail_fast=True)]


class Duplicates(Part):
    """How many images are there several times."""

    test_in_training: Count = 0
    two_labels: Count = 0


class Data(Part):
    """The images of the run: classes, domains and counts."""

    classes: Names
    domains: Names = []
    train: Count | None = None
    validation: Count | None = None
    test: Count | None = None
    clients: Annotated[list[Count], Field(fail_fast=True)] | ManyClients | None = None
    skipped: Count = 0
    duplicates: Duplicates | None = None
    notes: Names = []


class Seconds(Part):
    """The seconds of the run's parts; further ones are those of stages after the last round."""

    connect: float = 0.0
    rounds: float = 0.0
    total: float = 0.0

    def with_stage(self, stage: str, seconds: float) -> dict[str, float]:
        """Return the seconds of a run's parts with those of a stage, and their new total."""
        parts = {**self.entries(), stage: seconds}
        total = sum(value for name, value in parts.items() if name != "total")
        return {**parts, "total": round(total, 3)}


class Results(Part):
    """The scores of the final model, by metric."""

    test: Scores = {}
    validation: Scores = {}

    def accuracies(self) -> Iterator[tuple[str, float]]:
        """Yield each split with an accuracy; that of the test set, if there is one, is first."""
        for split, scores in (("test", self.test), ("validation", self.validation)):
            if "accuracy" in scores:
                yield split, scores["accuracy"]


class Spread(Part):
    """How accuracy is spread over clients; see `spread_over_clients`."""

    clients: Count
    too_few_images: Count
    mean: Share | None = None
    worst_tenth: Share | None = None
    deviation: Share | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.clients and None in (self.mean, self.worst_tenth, self.deviation):
            raise RecordError("mean, worst_tenth or deviation is missing")
        return self


class Statistics(Part):
    """The test scores with each kind of batch norm's statistics, by reading."""

    readings: Mapping[str, Scores] = {}


class Stage(Part):
    """The stage after training, with the scores before and after it.

    They are test scores or, of a stage that gives each client a model, the spread over clients.
    """

    name: str
    seconds: float | None = None
    before: Scores = {}
    after: Scores = {}
    reason: str | None = None

    @property
    def changed_model(self) -> bool:
        """Whether it made the final model."""
        return self.reason is None and "clients" not in self.after

    @property
    def accuracies(self) -> tuple[float, float] | None:
        """The accuracies before and after it; None if it has not both."""
        before, after = (
            each.get("accuracy", each.get("mean")) for each in (self.before, self.after)
        )
        return None if before is None or after is None else (before, after)


class Forgotten(Part):
    """Which clients were removed from the model of an earlier run, by ``univarfl forget``.

    Attributes:
        run: the directory of the earlier run.
        clients: the names of the clients' sites, or their numbers.
    """

    run: str
    clients: Names


class Stopped(Part):
    """Why the run ended before its last round.

    Attributes:
        round: after which it ended.
        metric: the validation score that did not improve.
        best_round: the round of the best score.
        best: the best score.
    """

    round: Count
    metric: Literal["accuracy", "loss"]
    best_round: Count
    best: Annotated[float, Field(allow_inf_nan=False)]

    @property
    def why(self) -> str:
        """The reason as a line."""
        return (
            f"stopped after round {self.round}: validation {self.metric} was best after round "
            f"{self.best_round} ({self.best:.4g})"
        )


class Privacy(Part):
    """The privacy that the run has spent.

    Attributes:
        epsilon: a number, or why there is none.
        noise: where the noise comes from.
        attempts: at rounds, those that failed included.
    """

    epsilon: float | str
    unit: str = ""
    delta: float | None = None
    noise: str
    why: str = ""
    attempts: Count = 0
