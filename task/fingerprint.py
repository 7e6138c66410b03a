"""A hash of the code that trains, so that server and clients can tell whether they run the same.

Flower's simulation workers may import these packages from the directory where its daemon was first
started, ahead of the bundle that was submitted. Nothing would tell, but for this.
"""

import functools
import hashlib
import importlib.util
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
    digest = hashlib.sha256()
    for folder, directory in sorted(code_directories().items()):
        pattern = "*.yaml" if folder == "conf" else "*.py"
        for path in sorted(directory.rglob(pattern)):
            digest.update(f"{folder}/{path.relative_to(directory).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
