"""The versions of the images that decide a run's result."""

from typing import TYPE_CHECKING, NamedTuple

from server_app.runs.records.run_record import RunRecord
from task.config import LocalConfig
from task.data.image_store.store import open_dataset
from task.errors import ConfigError, DataError

if TYPE_CHECKING:
    from server_app.config.experiment import Experiment


class ImageVersions(NamedTuple):
    """Hashes of images; equal images have equal ones in every directory and on every machine.

    Attributes:
        data: of the run's images; see `data_version`.
        stage: of those that only the stage after training reads; None if there are none.
    """

    data: str | None
    stage: str | None

    def differ(self, other: "ImageVersions") -> str:
        """Return which images differ, as words; empty if none do. Unknown ones do not."""
        names = ("the images", "the images of after.images")
        for name, one, two in zip(names, self, other, strict=True):
            if one is not None and two is not None and one != two:
                return name
        return ""


def versions_of(experiment: "Experiment") -> ImageVersions:
    """Return the versions of an experiment's images as they are now; None if not readable."""
    try:
        stage = experiment.component("after").data_version(experiment.source())
    except (ConfigError, DataError):
        stage = None
    return ImageVersions(data_version(experiment.local()), stage)


def recorded_versions(record: RunRecord) -> ImageVersions:
    """Return the versions of a run's images, from its record."""
    return ImageVersions(record.data_version, record.stage_data_version)


def data_version(config: LocalConfig) -> str | None:
    """Return a hash of a run's images, labels and test split; None if they cannot be read.

    With ``partition=sites`` it covers the coordinator's test set; each site checks its own images
    itself (`client_app`) and refuses to continue a run whose images have changed.
    """
    source = config.source()
    try:
        return open_dataset(
            source.at_coordinator() if config.partitioner().sites else source
        ).content
    except (ConfigError, DataError):
        return None
