"""The state that a method keeps for each client between rounds, in files on the client's machine.

A file is named after its client and round. A client loads exactly the round of its last accepted
update, which the server names. So a refused reply, a crash before the server's checkpoint, or a
change of worker never leaves a client one step ahead of the federation.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from task.errors import system_reason
from task.machine.files import (
    ANY_ROUND,
    DIGEST,
    create_whole,
    digest,
    from_home,
    make_private,
    require_space,
    round_files,
    user_state_directory,
    write_whole,
)
from task.protocol.base import directory_name
from task.site import Site

HEADER_BYTES = 1_000_000
MAX_RUNS = 10_000  # whose states a site keeps
MAX_ROUNDS = 20  # whose states a client keeps
DESCRIBED = "described-"  # begins the names of entries that outlast the run
MADE_BY = "experiment"  # the entry with a hash of the experiment whose states are kept
STARTED_FROM = "started_from"  # the metadata entry with the round whose state a round started from


class StateLostError(RuntimeError):
    """A client's state of the round that the server names is missing or cannot be used."""


def state_root(site: Site | None = None) -> Path:
    """Return the directory of all states.

    For a site it is the one that its own settings name. Otherwise it is ``$UNIVARFL_MEMORY`` or,
    if that is not set, the user's directory for state.

    Raises:
        StateLostError: the path is relative, so that workers would resolve it differently.
    """
    if site:
        return site.state_directory
    root = from_home(os.environ.get("UNIVARFL_MEMORY") or user_state_directory())
    if not root.is_absolute():
        raise StateLostError(f"UNIVARFL_MEMORY={root} must be an absolute path")
    return root


class ClientState:
    """The states of one run's clients.

    Args:
        run: the run's id.
        max_bytes: a file larger than this, without its header, is not loaded.
        site: the site, if this machine is one.
    """

    def __init__(self, run: str, max_bytes: int = 0, site: Site | None = None) -> None:
        self.directory = state_root(site) / directory_name(run)
        self._max_bytes = max_bytes + HEADER_BYTES
        self._spare = site.keep_free_megabytes if site else 0

    def load(self, client: int, server_round: int) -> dict[str, Tensor]:
        """Return the state that a client kept in a round; empty for round 0.

        Raises:
            StateLostError: it is missing, damaged or too large.
        """
        if not server_round:
            return {}
        path = self._path(client, server_round)
        try:
            if path.stat().st_size > self._max_bytes:
                raise StateLostError(f"{path} is larger than {self._max_bytes} bytes")
            content = path.read_bytes()
            state = load(content)
        except FileNotFoundError:
            raise StateLostError(
                f"this client's last accepted round is {server_round}, and {path} is missing; "
                "$UNIVARFL_MEMORY must name a permanent directory that all workers of the client "
                "share (at a site: memory-dir)"
            ) from None
        except (OSError, SafetensorError) as error:
            raise StateLostError(f"{path} cannot be read: {error}") from None
        facts = _metadata(content)
        if DIGEST not in facts:
            raise StateLostError(f"{path} was written by an earlier version of this code")
        started_from = facts.get(STARTED_FROM, "")
        if facts[DIGEST] != state_digest(client, server_round, started_from, state):
            raise StateLostError(f"{path} is damaged: its checksum is wrong")
        return state

    def require_space(self) -> None:
        """Check that the disk has room for one more state.

        Raises:
            SpaceError: it has not, or a site would leave less free than its owner wants.
        """
        require_space(self.directory, self._max_bytes, self._spare)

    def keep(self, client: int, server_round: int, accepted: int, state: dict[str, Tensor]) -> None:
        """Keep a client's state of a round, and delete those that are not needed any more.

        Three kinds stay: the state of the last accepted round; the one that this round started
        from, because the server may return to the checkpoint before its last; and later ones,
        because this worker may be late and the client may have continued on another one.

        Args:
            client: the client's number.
            server_round: the round.
            accepted: the round of its last accepted update; 0 for none.
            state: what the method keeps.
        """
        path = self._path(client, server_round)
        make_private(path.parent)
        found = state_digest(client, server_round, str(accepted), state)
        facts = {STARTED_FROM: str(accepted), DIGEST: found}
        write_whole(path, save(state, facts))
        needed = {server_round, accepted, self._started_from(client, accepted)}
        kept = round_files(path.parent)
        later = sorted((number for number in kept if number > server_round), reverse=True)
        for number in kept.keys() - needed - set(later[:MAX_ROUNDS]):
            kept[number].unlink(missing_ok=True)

    def first(self, name: str, value: str) -> str:
        """Return the value stored under `name` for this run, storing `value` if there is none.

        Raises:
            StateLostError: the states of too many runs are kept already, or it cannot be written.
        """
        path = self.directory / name
        root = self.directory.parent
        new = root.exists() and not self.directory.exists()
        if new and sum(1 for _ in root.iterdir()) >= MAX_RUNS:
            raise StateLostError(
                f"{root} holds the states of {MAX_RUNS} runs; delete old ones, "
                "but not privacy-ledger"
            )
        try:
            make_private(path.parent)
            return value if create_whole(path, value.encode()) else path.read_text()
        except OSError as error:
            raise StateLostError(
                f"{path.parent} cannot be written: {system_reason(error)}; set UNIVARFL_MEMORY to "
                "another directory (at a site: memory-dir)"
            ) from None

    def require_experiment(self, experiment: str) -> None:
        """Refuse states that another experiment of the run has left.

        That experiment may have had less noise, or none.

        Args:
            experiment: the settings of local training as JSON.

        Raises:
            StateLostError: there are such states, or states of an earlier version of this code.
        """
        name = hashlib.sha256(experiment.encode()).hexdigest()
        unmarked = any(self.directory.glob("client-*")) and not (self.directory / MADE_BY).exists()
        if unmarked or self.first(MADE_BY, name) != name:
            made_by = "an earlier version of this code" if unmarked else "another experiment"
            raise StateLostError(
                f"it keeps client state of {made_by} under the name of this run; start a new run"
            )

    def has(self, prefix: str) -> bool:
        """Return whether a state has a tensor whose name begins so."""
        for path in self.directory.glob(f"client-*/{ANY_ROUND}"):
            try:
                with safe_open(path, "pt") as file:
                    if any(name.startswith(prefix) for name in file.keys()):  # noqa: SIM118
                        return True
            except (OSError, SafetensorError):
                continue
        return False

    def delete(self) -> None:
        """Delete the states of the run, because it is completed.

        Entries whose names begin with `DESCRIBED` stay: a coordinator that ends a run early could
        ask for more than one run may tell.
        """
        if not any(self.directory.glob(f"{DESCRIBED}*")):
            shutil.rmtree(self.directory, ignore_errors=True)
            return
        for path in self.directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif not path.name.startswith(DESCRIBED):
                path.unlink(missing_ok=True)

    def _started_from(self, client: int, server_round: int) -> int:
        """Return the round whose state a round started from; 0 if that is not known."""
        try:
            with safe_open(self._path(client, server_round), "pt") as file:
                return int((file.metadata() or {})[STARTED_FROM])
        except (OSError, SafetensorError, KeyError, ValueError):
            return 0

    def _path(self, client: int, server_round: int) -> Path:
        return self.directory / f"client-{client}" / f"round-{server_round}.safetensors"


def state_digest(
    client: int, server_round: int, started_from: str, state: Mapping[str, Tensor]
) -> str:
    """Return the hash by which a reader recognises a whole state of a client and round."""
    kinds = [(name, str(state[name].dtype), list(state[name].shape)) for name in sorted(state)]
    arrays = {
        name: value.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
        for name, value in state.items()
    }
    return digest(json.dumps([client, server_round, started_from, kinds]), arrays)


def _metadata(content: bytes) -> dict[str, str]:
    """Return the metadata in a safetensors file that could be loaded."""
    length = int.from_bytes(content[:8], "little")
    return dict(json.loads(content[8 : 8 + length]).get("__metadata__", {}))
