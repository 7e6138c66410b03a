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


def require_own_modules(directory: Path) -> None:
    """Check that no other package with the name of one of ours is already imported.

    Raises:
        ImportError: ``client_app``, ``server_app`` or ``task`` was imported from elsewhere.
    """
    for name in ("client_app", "server_app", "task"):
        path = getattr(sys.modules.get(name), "__file__", None)
        if path and directory not in Path(path).resolve().parents:
            raise ImportError(
                f"univarfl has a package {name!r}, and {path} is imported under that name already: "
                "use univarfl in another process, or rename that package"
            )


DIRECTORY = application_directory()
require_own_modules(DIRECTORY)
sys.path.insert(0, str(DIRECTORY))
