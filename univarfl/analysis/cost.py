"""The cost of a method for a client: FLOPs, memory and seconds."""

from statistics import mean

import pandas as pd

from server_app.runs.records.tables import RecordError
from task.analysis.cost import training_cost
from task.errors import DataError
from univarfl.analysis.analysed_run import AnalysedRun
from univarfl.analysis.base import Measure
from univarfl.records.clients import read_clients

MILLION = 1e6


class ClientCost(Measure):
    """FLOPs and stored numbers (FedAlign, Table 5), and seconds per client (FedUV, Table 5)."""

    name = "cost"
    title = "Cost"
    note = (
        "MFLOP of convolutions and matrix products in a training step of a client's second round, "
        "per image of a full batch, up to the loss and with the backward pass. One multiplication "
        "and one addition count as two; FedAlign's Tables 5 and 7 seem to count them as one. "
        "Stored numbers are those that a client keeps in memory, with its model, in millions; "
        "FedAlign's leave out batch norm, and every projector but MOON's. Seconds are those of a "
        "client's local training, and of a round; they are longer for runs that shared a machine. "
        "Published seconds are those of the authors' GPUs."
    )
    published = ("forward_mflop", "million_parameters", "round_seconds")
    columns = ("forward MFLOP", "step MFLOP", "stored M", "seconds", "seconds a round")
    uses_images = False

    def measure(self, analysed: AnalysedRun) -> pd.DataFrame:
        """Return one row."""
        dataset = analysed.worker.data.dataset
        _, size, _, channels = dataset.images.shape
        cost = training_cost(analysed.config, channels, size, len(dataset.classes))
        row = (
            cost.forward / MILLION,
            cost.step / MILLION,
            cost.stored / MILLION,
            mean_client_seconds(analysed),
            mean(analysed.run.series["train", "seconds"].values()),
        )
        return pd.DataFrame([row], columns=list(self.columns))

    def run_values(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return all columns; only the seconds differ between runs."""
        return table.set_index("run")[list(self.columns)]


def mean_client_seconds(analysed: AnalysedRun) -> float:
    """Return the mean duration of a client's local training, in seconds.

    Raises:
        DataError: the table of the clients cannot be read.
    """
    try:
        clients = read_clients(analysed.run.directory)
        return float(clients[clients["status"] == "ok"]["seconds"].mean())
    except RecordError as error:
        raise DataError(str(error)) from None
    except KeyError as error:
        raise DataError(f"the table of the clients lacks the column {error}") from None
