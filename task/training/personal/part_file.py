"""The file with a client's part of the model, which belongs to one file with the shared part."""

from safetensors.torch import save

from task.machine.files import DIGEST, digest
from task.tensors import Tensors

SUFFIX = ".safetensors"


def part_file(part: Tensors, model: str) -> bytes:
    """Return the content of the file; equal parts of equal models give equal bytes.

    Args:
        part: the entries of the ``state_dict`` that are the client's own, on the CPU.
        model: the SHA-256 of the ``model.safetensors`` with the shared part.
    """
    return save(dict(part), {DIGEST: part_digest(part, model)})


def part_digest(part: Tensors, model: str) -> str:
    """Return the hash by which a reader recognises a whole part of this model."""
    return digest(model, {name: value.numpy() for name, value in part.items()})
