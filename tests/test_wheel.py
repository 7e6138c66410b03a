"""The wheel: what it installs, and that it works beside another application of the same shape."""

import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
APPLICATION = ("client_app", "conf", "server_app", "task")
OTHER = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "other"
version = "1"
[tool.hatch.build.targets.wheel]
packages = ["client_app", "server_app", "task"]
"""


def uv(*words: str | Path) -> None:
    subprocess.run(["uv", "--quiet", *words], check=True, cwd=ROOT)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    uv("build", "--wheel", "--out-dir", directory)
    (path,) = directory.glob("*.whl")
    return path


def test_a_wheel_installs_only_univarfl_with_the_whole_application(wheel: Path) -> None:
    names = {Path(name) for name in zipfile.ZipFile(wheel).namelist()}
    assert {name.parts[0] for name in names} == {"univarfl", "univarfl-0.1.0.dist-info"}
    bundle = Path("univarfl", "bundle")
    tracked = subprocess.run(
        ["git", "ls-files", *APPLICATION], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    expected = {bundle / name for name in [*tracked, "pyproject.toml", "README.md", "LICENSE"]}
    assert {name for name in names if bundle in name.parents} == expected


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, another application, and this one's dependencies."""
    other, place = tmp_path_factory.mktemp("other"), tmp_path_factory.mktemp("venv") / "env"
    (other / "pyproject.toml").write_text(OTHER)
    for name in ("client_app", "server_app", "task"):
        (other / name).mkdir()
        (other / name / "__init__.py").write_text("OWNER = 'other'\n")
    uv("venv", "--python", sys.executable, place)
    uv("pip", "install", "--no-deps", "--python", place / "bin" / "python", wheel, other)
    # The editable install of this clone stays out: its .pth file is not read from here.
    (site_packages(place) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    for program in Path(sys.executable).parent.glob("fl*"):
        text = program.read_text().replace(sys.executable, str(place / "bin" / "python"))
        (place / "bin" / program.name).write_text(text)
        (place / "bin" / program.name).chmod(0o755)
    return place


def site_packages(environment: Path) -> Path:
    (place,) = environment.glob("lib/python*/site-packages")
    return place


def contents(directory: Path) -> dict[str, str]:
    """The hash of each file, compiled ones aside."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


API = """\
import json, sys, univarfl
settings = dict(word.split("=") for word in sys.argv[1:])
output_dir = settings.pop("output_dir")
run = univarfl.train(output_dir=output_dir, **{key: json.loads(v) for key, v in settings.items()})
assert run.status == univarfl.load_run(run.directory).status == "completed"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("univarfl", "train", "engine=inprocess", "run_id=one"),
        ("univarfl", "sweep", "engine=inprocess", "seed=1"),
        ("univarfl", "train", "engine=flower", "run_id=one"),
        ("python", "-c", API, "seed=1"),
    ],
    ids=["inprocess", "sweep", "flower", "api"],
)
def test_it_runs_from_an_empty_directory_beside_another_application(
    words: tuple[str, ...], environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("UNIVARFL_MEMORY", str(tmp_path / "memory"))
    before = contents(site_packages(environment))
    (tmp_path / "empty").mkdir()
    ended = subprocess.run(
        [environment / "bin" / words[0], *words[1:], "rounds=1", "local_epochs=1", "num_clients=2",
         f"output_dir={tmp_path / 'runs'}"],
        cwd=tmp_path / "empty", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (record,) = (tmp_path / "runs").glob("*/run.json")
    assert json.loads(record.read_text())["status"] == "completed"
    assert not list((tmp_path / "empty").iterdir())
    assert contents(site_packages(environment)) == before
    code = "import client_app as c, server_app as s, task as t; print(c.OWNER, s.OWNER, t.OWNER)"
    shown = subprocess.run(
        [environment / "bin" / "python", "-c", code],
        cwd=tmp_path / "empty", capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert shown.split() == ["other"] * 3


FORKED = """\
import univarfl.application
from univarfl.deploy.site.forks import ForkServer
server = ForkServer()
print(server.fork(lambda: None).end(patience=60))
server.stop()
"""


@pytest.mark.slow
def test_a_sites_worker_runs_from_the_wheel(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    shown = [
        subprocess.run(
            [environment / "bin" / "python", "-P", *words],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        ).stdout
        for words in (("-m", "univarfl.site_worker", "--help"), ("-c", FORKED))
    ]  # fmt: skip
    assert "--secret-file" in shown[0]
    assert shown[1].split("\n")[-2] == "it ended with code 0"


def test_the_module_is_the_command_and_the_package_has_the_version() -> None:
    assert shutil.which("univarfl")
    code = "import univarfl; print(univarfl.__version__)"
    for words, shown in (("-c", code), "0.1.0"), (("-m", "univarfl", "--help"), "Usage: univarfl"):
        ended = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
        assert ended.stdout.strip().startswith(shown)
