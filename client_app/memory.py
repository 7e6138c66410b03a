"""What a method keeps for each client from round to round, in files on the client's own machine.

A file is named after client and round, and a client loads exactly the round that the server says it
last accepted. So a refused reply, a crash before the server's checkpoint, or another worker never
leaves a client one step ahead of the federation.
"""

import hashlib
import os
import secrets
import shutil
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from task.files import from_home, write_whole
from task.site import Site, state_directory

HEADER_BYTES = 1_000_000
BEGAN_WITH = "began_with"


class MemoryLostError(RuntimeError):
    """A client's memory of the round that the server names is not there, or cannot be used."""


def memory_root(site: Site | None = None) -> Path:
    """Where memories are kept: ``$UNIVARFL_MEMORY``, else the user's directory for state.

    For a site it is what its own settings say, else that directory.

    Raises:
        MemoryLostError: the path is relative, so that each worker would take it for another one.
    """
    if site:
        return site.memory_place
    root = from_home(os.environ.get("UNIVARFL_MEMORY") or state_directory())
    if not root.is_absolute():
        raise MemoryLostError(f"UNIVARFL_MEMORY={root} must be an absolute path")
    return root


class ClientMemory:
    """The memories of one run's clients.

    Args:
        run: the run's id. Only its hash names a directory: what a server sends is never a path.
        most_bytes: a file larger than this, beside its header, is not loaded.
        site: the machine, if it is a client with data of its own.
    """

    def __init__(self, run: str, most_bytes: int = 0, site: Site | None = None) -> None:
        self.directory = memory_root(site) / hashlib.sha256(run.encode()).hexdigest()[:32]
        self._most_bytes = most_bytes + HEADER_BYTES

    def load(self, client: int, server_round: int) -> dict[str, Tensor]:
        """What was kept in that round; nothing for round 0, before which nobody was accepted.

        Raises:
            MemoryLostError: it is missing, damaged or too large.
        """
        if not server_round:
            return {}
        path = self._path(client, server_round)
        try:
            if path.stat().st_size > self._most_bytes:
                raise MemoryLostError(f"{path} is larger than {self._most_bytes} bytes")
            return load(path.read_bytes())
        except FileNotFoundError:
            raise MemoryLostError(
                f"round {server_round} was this client's last, and {path} is not there; "
                "$UNIVARFL_MEMORY must name a directory that lasts and that each worker of the "
                "client sees"
            ) from None
        except (OSError, SafetensorError) as error:
            raise MemoryLostError(f"{path} cannot be read: {error}") from None

    def keep(
        self, client: int, server_round: int, accepted: int, memory: dict[str, Tensor]
    ) -> None:
        """Keep a round's memory beside the accepted one's, and delete those of earlier rounds.

        That before the accepted one stays, for a server that goes back to its checkpoint before the
        last. So do later ones: this worker may be a straggler whose client has gone on elsewhere.
        """
        path = self._path(client, server_round)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, save(memory, {BEGAN_WITH: str(accepted)}))
        needed = {accepted, self._began_with(client, accepted)}
        for old in path.parent.glob("round-*.safetensors"):
            kept = int(old.stem.removeprefix("round-"))
            if kept < server_round and kept not in needed:
                old.unlink(missing_ok=True)

    def first(self, name: str, value: str) -> str:
        """What was said under a name when this run first asked; `value`, if that is now."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{name}.{secrets.token_hex(4)}.tmp")
        draft.write_text(value)
        try:
            path.hardlink_to(draft)  # whole at once, and only where there is none yet
        except FileExistsError:
            return path.read_text()
        finally:
            draft.unlink()
        return value

    def forget(self) -> None:
        """Delete the run's memories: it is completed."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _began_with(self, client: int, server_round: int) -> int:
        """The round whose memory a round began with; 0 where that is not known."""
        try:
            with safe_open(self._path(client, server_round), "pt") as file:
                return int((file.metadata() or {})[BEGAN_WITH])
        except (OSError, SafetensorError, KeyError, ValueError):
            return 0

    def _path(self, client: int, server_round: int) -> Path:
        return self.directory / f"client-{client}" / f"round-{server_round}.safetensors"
