"""What the method costs a client: operations, memory and seconds."""

import pandas as pd

from server_app.analysis.base import Measure
from server_app.analysis.subject import Subject
from task.analysis.cost import training_cost
from task.errors import DataError, system_reason

MILLION = 1e6


class ClientCost(Measure):
    """FLOPs and stored numbers (FedAlign Table 5), and a client's seconds (FedUV Table 5)."""

    name = "cost"
    title = "Cost"
    note = (
        "Of a training step in a client's second round, for each image of a full batch: millions "
        "of operations of convolutions and matrix products (a multiplication with an addition is "
        "two; FedAlign's Table 5 seems to count it once), up to the loss and with the backward "
        "pass. The numbers that a client keeps in memory, its model's among them, in millions. "
        "The seconds that a client's local training took, as the record has them: runs that "
        "shared a machine count its being shared (FedUV's Table 5 has whole rounds')."
    )
    columns = ("forward MFLOP", "step MFLOP", "stored M", "seconds")
    sampled = False

    def measure(self, subject: Subject) -> pd.DataFrame:
        """One row."""
        dataset = subject.worker.data.dataset
        _, size, _, channels = dataset.images.shape
        cost = training_cost(subject.config, channels, size, len(dataset.classes))
        row = (cost.forward / MILLION, cost.step / MILLION, cost.stored / MILLION, spent(subject))
        return pd.DataFrame([row], columns=list(self.columns))

    def by_run(self, table: pd.DataFrame) -> pd.DataFrame:
        """All of them; only the seconds differ between runs."""
        return table.set_index("run")[list(self.columns)]


def spent(subject: Subject) -> float:
    """The mean seconds of a client's local training.

    Raises:
        DataError: ``clients.csv`` cannot be read.
    """
    try:
        clients = pd.read_csv(subject.run.directory / "clients.csv")
        return float(pd.to_numeric(clients[clients["status"] == "ok"]["seconds"]).mean())
    except OSError as error:
        raise DataError(f"clients.csv: {system_reason(error)}") from None
    except (KeyError, TypeError, ValueError):
        raise DataError("clients.csv is not as a run writes it") from None
