"""The TensorBoard logger: logs in the run directory if TensorBoard is installed."""

from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Self

from server_app.runs.records.run_record import RunRecord
from server_app.tracking.loggers import MetricLogger, Scores


class TensorBoard(MetricLogger):
    """Event files in ``tensorboard/``; ``tensorboard --logdir runs`` shows those of all runs."""

    package: ClassVar = "tensorboard"
    module: ClassVar = "torch.utils.tensorboard"

    def __init__(self, directory: Path) -> None:
        # Imported here because it takes a second or two, and TensorBoard may not be installed.
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415

        self._writer = SummaryWriter(str(directory / "tensorboard"))

    @classmethod
    def installed(cls) -> bool:
        return find_spec(cls.package) is not None

    @classmethod
    def begin(cls, directory: Path, record: RunRecord) -> Self:
        return cls(directory)

    def round(self, server_round: int, scores: Scores) -> None:
        for split, metrics in scores.items():
            for metric, value in metrics.items():
                self._writer.add_scalar(f"{metric}/{split}", value, server_round)
        self._writer.flush()

    def end(self, status: str) -> None:
        self._writer.close()
