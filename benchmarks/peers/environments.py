"""An environment of its own for each peer, as their requirements conflict with ours."""

import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

CACHE = Path.home() / ".cache" / "univarfl" / "peers"
SHARED = ("torch", "torchvision", "numpy", "pydantic")  # at our versions; the bare loop needs them


def python_of(requirements: Sequence[str], newer: str = "") -> Path:
    """Return the Python of an environment with these requirements, made by uv if there is none.

    The first requirement is the peer itself, and names the environment. PyTorch and NumPy have our
    versions, so that a difference in time is not theirs.

    Args:
        requirements: what is installed.
        newer: a version of Python that runs the peer although the peer requires 3.14, the first
            version that does not evaluate annotations; the installed files are changed to defer it.
    """
    shared = [f"{name}=={version(name)}" for name in SHARED]
    place = CACHE / requirements[0].replace("==", "-")
    python, done = place / "bin" / "python", place / "requirements.txt"
    text = "\n".join([*requirements, *shared])
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{place}.lock"):
        if not done.exists() or done.read_text() != text:
            run = ["uv", "venv", "--quiet", "--seed", "--clear", "--python"]
            subprocess.run([*run, newer or sys.executable, str(place)], check=True)
            install = ["uv", "pip", "install", "--quiet", "--no-config", "--python", str(python)]
            if newer:
                run = [str(python), "-m", "pip", "install", "--quiet", "--no-deps"]
                subprocess.run([*run, "--ignore-requires-python", requirements[0]], check=True)
                defer_annotations(place, requirements[0].partition("==")[0])
                requirements = requirements[1:]
            subprocess.run([*install, *requirements, *shared], check=True)
            done.write_text(text)
    return python


def defer_annotations(environment: Path, package: str) -> None:
    """Make an installed package not evaluate its annotations, as Python 3.14 does by default."""
    for path in environment.glob(f"lib/python*/site-packages/{package}/**/*.py"):
        path.write_text("from __future__ import annotations\n" + path.read_text())
