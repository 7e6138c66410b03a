"""An environment of its own for each peer, as their requirements conflict with ours."""

import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

CACHE = Path.home() / ".cache" / "univarfl" / "peers"
SHARED = ("torch", "torchvision", "numpy", "pydantic")  # at our versions; the bare loop needs them


def python_of(requirements: Sequence[str]) -> Path:
    """Return the Python of an environment with these requirements, made by uv if there is none.

    The first requirement is the peer itself, and names the environment. PyTorch and NumPy have our
    versions, so that a difference in time is not theirs.
    """
    everything = [*requirements, *(f"{name}=={version(name)}" for name in SHARED)]
    place = CACHE / requirements[0].replace("==", "-")
    python, done = place / "bin" / "python", place / "requirements.txt"
    text = "\n".join(everything)
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{place}.lock"):
        if not done.exists() or done.read_text() != text:
            subprocess.run(["uv", "venv", "--quiet", "--clear", str(place)], check=True)
            install = ["uv", "pip", "install", "--quiet", "--no-config", "--python", str(python)]
            subprocess.run([*install, *everything], check=True)
            done.write_text(text)
    return python
