"""Whether a round's memory is available, before the system ends the process."""

from server_app.rounds.errors import RunFailedError
from task.machine.memory import available_bytes
from task.training.device import return_freed_memory

RESERVE = 200_000_000
MEGABYTE = 1e6


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
