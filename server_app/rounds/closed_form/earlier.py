"""The sums that an earlier run kept, to which those of later clients are added."""

from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from server_app.aggregation.weights import from_file, to_tensors
from server_app.config.compatibility.kept_sums import ADD_TO
from server_app.rounds.context import RoundContext
from server_app.runs.kept_sums import KeptSum, kept_clients, read_sum
from server_app.runs.records.run_record import read_record
from task.errors import ConfigError
from task.given_weights import MODEL
from task.optim.parameters import CLASSIFIER
from task.protocol.after.sums import Form


def earlier_sums(context: RoundContext, form: Form) -> Iterator[tuple[int, KeptSum]]:
    """Yield the clients of the run whose sums the earlier run has kept, each with its sums.

    Args:
        context: the run; its settings are those of the earlier run, as the rules have checked.
        form: of the sums.

    Raises:
        ConfigError: the earlier run had another network or other images, or its sums are damaged.
        RecordError: a record cannot be read.
    """
    experiment = context.experiment
    directory = Path(experiment.sums.add_to or "")
    check_network(context, directory)
    before, now = read_record(directory), read_record(context.directory)
    if not context.sites and before.data_version != now.data_version:
        raise ConfigError(ADD_TO, directory, "has sums of other images: the data have changed")
    if before.versions != now.versions:
        context.note("", f"{ADD_TO}: {directory.name} was made with other versions of packages")
    kept = set(kept_clients(directory))
    found = [
        (client, name)
        for client, name in enumerate(experiment.client_names)
        if name in kept and client not in experiment.excluded
    ]
    context.note("", f"{ADD_TO}: the sums of {len(found)} clients are those of {directory.name}")
    for client, name in found:
        yield client, read_sum(directory, name, form)


def check_network(context: RoundContext, directory: Path) -> None:
    """Refuse the sums of a network with other weights before its classifier.

    Raises:
        ConfigError: they differ, or those of the earlier run cannot be read.
    """
    try:
        arrays, _ = from_file(directory / MODEL)
    except (OSError, SafetensorError) as error:
        raise ConfigError(ADD_TO, directory, f"its {MODEL} cannot be read: {error}") from None
    before, now = to_tensors(arrays), context.model.whole
    names = [name for name in before.keys() | now.keys() if not name.startswith(CLASSIFIER)]
    if not all(name in before and name in now and before[name].equal(now[name]) for name in names):
        allowed = "has sums of a network with other weights; use the model.weights of that run"
        raise ConfigError(ADD_TO, directory, allowed)
