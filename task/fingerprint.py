"""A hash of the code that trains, so that server and clients can tell whether they run the same.

Flower's simulation workers may import these packages from the directory where its daemon was first
started, ahead of the bundle that was submitted. Nothing would tell, but for this.
"""

import functools
import hashlib
import importlib.util
from collections.abc import Collection, Mapping
from pathlib import Path

import task


def code_directories() -> dict[str, Path]:
    """Where the code that trains was, or would be, imported from, by folder name."""
    found = importlib.util.find_spec("client_app")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("client_app is not importable beside task")
    own = Path(task.__file__).resolve().parent
    return {
        "client_app": Path(found.origin).resolve().parent,
        "conf": own.parent / "conf",
        "task": own,
    }


@functools.cache
def fingerprint() -> str:
    """SHA-256 over the sorted relative paths and contents of the code that trains."""
    return hash_of(code_directories())


def hash_of(directories: Mapping[str, Path], leave_out: Collection[str] = ()) -> str:
    """SHA-256 over directories' files, by the name each directory goes under.

    Args:
        directories: by name; of ``conf`` the YAML counts, of the others the Python code.
        leave_out: folders directly inside that do not count.
    """
    digest = hashlib.sha256()
    for folder, directory in sorted(directories.items()):
        pattern = "*.yaml" if folder == "conf" else "*.py"
        for path in sorted(directory.rglob(pattern)):
            inside = path.relative_to(directory)
            if inside.parts[0] not in leave_out:
                digest.update(f"{folder}/{inside.as_posix()}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
