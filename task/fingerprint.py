"""A hash of the code that trains, by which server and clients check that they run the same.

Flower's simulation workers may import these packages from the directory where its daemon was first
started, instead of from the bundle that was submitted. Without the hash nobody would notice. It
covers all code of this project that clients could run, and the other packages of an experiment's
components; `server_app.runs.identity` covers what a run does use. Neither covers
`univarfl.deploy.site`, which only passes a site's messages on.
"""

import functools
import hashlib
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

import task
from task.extensions import Extension, run_by_clients

STAMPS: dict[str, dict[str, tuple[int, int, int, int]]] = {}  # of the files, by their hash


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


def fingerprint_for(experiment: str) -> str:
    """Return the fingerprint of what the clients of an experiment run.

    Args:
        experiment: a `task.config.LocalConfig` as JSON.
    """
    return fingerprint(run_by_clients(experiment))


def changed_since_start() -> bool:
    """Return whether a file that trains has changed since this process, or its parent, hashed it.

    A site imports some of the code only when an experiment needs it. It asks for each message, and
    reading all files takes 50 ms. So they are read again only if the size or a time of one differs
    from those at the last reading.
    """
    hashed, now = fingerprint(), stamps()
    if STAMPS.get(hashed) == now:
        return False
    if fingerprint.__wrapped__() != hashed:
        return True
    STAMPS[hashed] = now
    return False


def ending_in(folder: str) -> str:
    """Return how the names of the files end that count in one of `code_directories`."""
    return ".yaml" if folder == "conf" else ".py"


def stamps() -> dict[str, tuple[int, int, int, int]]:
    """Return the inode, size and times of the files in `code_directories`, by path."""
    found = {}
    for kind, directory in code_directories().items():
        for folder, _, names in os.walk(directory):
            for name in names:
                if name.endswith(ending_in(kind)):
                    path = f"{folder}/{name}"
                    now = Path(path).stat()
                    found[path] = (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
    return found


@functools.cache
def fingerprint(extensions: Sequence[Extension] = ()) -> str:
    """Return the SHA-256 of the relative paths and contents of all files that train.

    These are the Python files of `code_directories`, the YAML files of ``conf``, and the files of
    other packages.

    Args:
        extensions: components of other packages, hashable as a tuple.
    """
    before = stamps()
    digest = hashlib.sha256()
    for folder, directory in sorted(code_directories().items()):
        for path in sorted(directory.rglob(f"*{ending_in(folder)}")):
            digest.update(f"{folder}/{path.relative_to(directory).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    for package, content in sorted({(each.package, each.content()) for each in extensions}):
        digest.update(f"{package}\0{content}".encode())
    STAMPS.setdefault(digest.hexdigest(), before)
    return digest.hexdigest()
