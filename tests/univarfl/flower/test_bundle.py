"""The bundle of a run at sites: small, because each site loads it, and complete."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from univarfl.flower import bundling
from univarfl.flower.programs import environment, installed_program
from univarfl.flower.run_command import copy_app

ROOT = Path(__file__).parents[3]
LARGEST = 850_000  # bytes; at 12 kB/s 71 s of the 120 s in which a site has to be ready
NEVER = ("benchmarks", "docs", "tests", "examples", "univarfl")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a bundle with Flower's own command."""
    place = tmp_path_factory.mktemp("bundle")
    copy_app(place / "app")
    words = [sys.executable, "-P", bundling.__file__, installed_program("flwr"), "build"]
    subprocess.run([*words, "--app", "app"], cwd=place, check=True, env=environment(place / "home"))
    (found,) = place.rglob("*.fab")
    return found


@pytest.mark.slow
def test_it_is_small_and_holds_what_a_run_needs(bundle: Path) -> None:
    assert bundle.stat().st_size < LARGEST
    with zipfile.ZipFile(bundle) as archive:
        assert archive.testzip() is None
        inside = archive.namelist()
    tops = {name.split("/")[0] for name in inside}
    assert {"client_app", "conf", "server_app", "task", "pyproject.toml"} <= tops
    assert not tops & set(NEVER)


@pytest.mark.slow
def test_the_apps_are_importable_from_it_alone(bundle: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(tmp_path)
    code = (
        "import sys\n"
        f"sys.path = [{str(tmp_path)!r}, *(path for path in sys.path if path != {str(ROOT)!r})]\n"
        "import server_app.app, client_app.app\n"
        "print(server_app.app.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(tmp_path / "server_app" / "app.py")
