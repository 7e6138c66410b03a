"""The directory of the Flower application; importing this module makes its packages importable.

A wheel carries the application, whose packages have names such as ``task``, in the directory
``univarfl/bundle``. There it cannot collide with other Flower applications in the environment. The
directory goes first on `sys.path`, ahead of packages of the same names.
"""

import sys
from pathlib import Path


def application_directory() -> Path:
    """Return the directory with the application's ``pyproject.toml`` and its packages.

    This is the bundle of an installed wheel, or the root of a clone.
    """
    package = Path(__file__).resolve().parent
    bundle = package / "bundle"
    return bundle if bundle.is_dir() else package.parent


DIRECTORY = application_directory()
sys.path.insert(0, str(DIRECTORY))
