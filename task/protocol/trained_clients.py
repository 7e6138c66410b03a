"""A file in which the workers of a simulation count trained clients, for the bars on a terminal.

A worker answers a message only after all of its clients. This file tells about each client at once.
Only the process that starts the simulation names the file; real sites have none.
"""

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

TRAINED_CLIENTS = "UNIVARFL_TRAINED_CLIENTS"  # the environment variable with the file's path


class TrainedClient(NamedTuple):
    """A client that was trained.

    Attributes:
        server_round: the round.
        images: the number of its training images; 0 if it failed, or tells no number.
        seconds: the duration of its training.
    """

    server_round: int
    images: int
    seconds: float


def count_client(server_round: int, images: int, seconds: float) -> None:
    """Append a client to the file, if there is one; a file that cannot be written is ignored."""
    path = os.environ.get(TRAINED_CLIENTS)
    if path:
        with contextlib.suppress(OSError), Path(path).open("a") as file:
            file.write(f"{server_round} {images} {seconds:.6f}\n")  # one write, so lines stay whole


class TrainedClients:
    """The file, read while it grows.

    Args:
        path: the file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def new(self) -> list[TrainedClient]:
        """Return the clients that were added since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                text = file.read()
        except OSError:
            return []
        complete = text[: text.rfind(b"\n") + 1]
        self._position += len(complete)
        rows = (line.split() for line in complete.decode().splitlines())
        return [TrainedClient(int(at), int(images), float(spent)) for at, images, spent in rows]
