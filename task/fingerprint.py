"""A hash of the code that trains, by which server and clients check that they run the same.

Flower's simulation workers may import these packages from the directory where its daemon was first
started, instead of from the bundle that was submitted. Without the hash nobody would notice. It
covers all code that clients could run; `server_app.runs.identity` covers what a run does use.
"""

import functools
import hashlib
import importlib.util
from pathlib import Path

import task


def code_directories() -> dict[str, Path]:
    """Return the directories of the code that trains, by package name.

    Raises:
        ModuleNotFoundError: ``client_app`` cannot be imported.
    """
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
    """Return the SHA-256 of the relative paths and contents of all files that train.

    These are the Python files of `code_directories`, and the YAML files of ``conf``.
    """
    digest = hashlib.sha256()
    for folder, directory in sorted(code_directories().items()):
        pattern = "*.yaml" if folder == "conf" else "*.py"
        for path in sorted(directory.rglob(pattern)):
            digest.update(f"{folder}/{path.relative_to(directory).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
