"""Whether a round's memory is available, before the system ends the process."""

from server_app.aggregation.guards.base import guard_of
from server_app.aggregation.strategies.base import strategy_of
from server_app.config.experiment import Experiment
from server_app.rounds.after.base import stage_of
from server_app.rounds.errors import RunFailedError
from task.machine.memory import available_bytes
from task.methods.base import Tensors
from task.training.device import return_freed_memory

RESERVE = 200_000_000
MEGABYTE = 1e6
# A round's memory, in models: in any case; and for each participant if a guard or a strategy needs
# each update (`python -m benchmarks.aggregation_memory`; Krum needs the most).
ROUND_MODELS, MODELS_PER_HELD_UPDATE, MODELS_PER_STRATEGY_UPDATE = 8.0, 1.5, 2.5


def bytes_per_round(experiment: Experiment, weights: Tensors) -> int:
    """Return about how much memory a round needs in the server's process, in bytes.

    Args:
        experiment: what is run.
        weights: the global model's.
    """
    strategy = strategy_of(experiment)
    keeps = experiment.watch.models_every is not None or stage_of(experiment).needs_models
    per_update = MODELS_PER_HELD_UPDATE if keeps or guard_of(experiment).needs_each_update else 0.0
    if strategy.needs_each_update:
        per_update = MODELS_PER_STRATEGY_UPDATE
    updates = strategy.updates_together(experiment.participants)
    models = ROUND_MODELS + strategy.earlier_weights() + per_update * updates
    return int(models * sum(value.nbytes for value in weights.values()))


def check_memory(server_round: int, needed: int) -> None:
    """Refuse to start a round whose memory is not available.

    Args:
        server_round: the round.
        needed: an estimate, in bytes.

    Raises:
        RunFailedError: there is less.
    """
    available = available_bytes()
    if needed + RESERVE > available:
        # This process keeps the memory of earlier rounds, which counts as used.
        return_freed_memory()
        available = available_bytes()
    if needed + RESERVE > available:
        raise RunFailedError(
            f"round {server_round}: memory is short: a round needs about "
            f"{(needed + RESERVE) / MEGABYTE:,.0f} MB in the server's process, and "
            f"{available / MEGABYTE:,.0f} MB are left; choose a smaller rho or model, or "
            "strategy=fedavg with guard=none"
        )
