"""The package ``tests/hospital_extras``, installed outside the clone."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from server_app.runs import identity
from task import extensions

PACKAGE = Path(__file__).parent / "hospital_extras"


@pytest.fixture(scope="module")
def hospital_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory into which the package is installed, with its entry points."""
    root = tmp_path_factory.mktemp("extension")
    source, target = root / "source", root / "target"
    shutil.copytree(PACKAGE, source)
    command: list[str | Path] = [
        "uv", "--quiet", "pip", "install", "--no-deps", "--target", target, source,
    ]  # fmt: skip
    subprocess.run(command, check=True, cwd=root)
    return target


def forget_extensions() -> None:
    for each in (extensions.extensions, extensions.run_by_clients, identity.component_hash):
        each.cache_clear()
    for name in [name for name in sys.modules if name.startswith("hospital_extras")]:
        del sys.modules[name]


@pytest.fixture
def installed(hospital_package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let this process find the package."""
    with monkeypatch.context() as patch:
        patch.syspath_prepend(hospital_package)
        forget_extensions()
        yield hospital_package
    forget_extensions()
