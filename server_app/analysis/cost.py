"""What the method costs a client: operations, memory and seconds."""

import pandas as pd

from server_app.analysis.base import Measure
from server_app.analysis.subject import Subject
from task.analysis.cost import training_cost

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
        clients = pd.read_csv(subject.run.directory / "clients.csv")
        seconds = clients[clients["status"] == "ok"]["seconds"].mean()
        row = (cost.forward / MILLION, cost.step / MILLION, cost.stored / MILLION, seconds)
        return pd.DataFrame([row], columns=list(self.columns))

    def by_run(self, table: pd.DataFrame) -> pd.DataFrame:
        """All of them; only the seconds differ between runs."""
        return table.set_index("run")[list(self.columns)]
