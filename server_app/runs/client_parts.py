"""The part of the model that each client keeps: ``clients/NUMBER.safetensors`` in a run directory.

A simulation writes it; what a site has written, its owner copies there. Together with
``model.safetensors`` it is the client's model.
"""

from pathlib import Path

from task.machine.files import write_whole
from task.tensors import Tensors
from task.training.personal.part_file import SUFFIX, part_file

DIRECTORY = "clients"


def save_client_part(directory: Path, client: int, part: Tensors, model: str) -> None:
    """Write a client's part.

    Args:
        directory: the run's.
        client: the client's number.
        part: the entries of the ``state_dict`` that are its own.
        model: the hash of the ``model.safetensors`` that they belong to.

    Raises:
        OSError: it cannot be written.
    """
    place = directory / DIRECTORY
    place.mkdir(exist_ok=True)
    write_whole(place / f"{client}{SUFFIX}", part_file(part, model))
