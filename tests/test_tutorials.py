"""The tutorials and the pages on deployment, command by command, as a reader types them."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import only_run
from tests.documents import commands, example, written
from tests.machines import until
from tests.task.data import making
from univarfl.flower.programs import free_ports

LEAST = ("rounds=1", "local_epochs=1")  # added to training, so that the test is short
INSTALLS = ("pip install", "uv sync", "source")
SERVES = ("deploy coordinator", "deploy site")
SITES = ("clinic_a", "clinic_b")


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory in which a reader types, with the environment activated."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # what a server prints is waited for
    monkeypatch.delenv("UNIVARFL_RUNS", raising=False)
    (tmp_path / "make_scans.py").write_text(example("make_scans.py"))
    return tmp_path


def lines(page: str, folder: str = "tutorials") -> list[str]:
    """Return the commands of a page, without those that install."""
    text = written()[f"docs/{folder}/{page}.md"]
    found = [each.line for each in commands(page, text)]
    return [line for line in found if not line.startswith(INSTALLS)]


def typed(line: str) -> str:
    """Run a command until it ends; return what it printed."""
    done = subprocess.run(
        line, shell=True, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def shortened(line: str) -> str:
    """Return a command that trains less: one round in one process, two runs of a sweep."""
    if " sweep " in line:
        line = re.sub(r"'?seed=\S+", "seed=0", line)
    trains = line.startswith(("univarfl train", "univarfl sweep"))
    kept = re.sub(r" (rounds|local_epochs|engine)=\S+", "", line)
    return " ".join([kept, *LEAST, "engine=inprocess"]) if trains else line


@pytest.mark.slow
def test_the_tutorials_of_one_machine_work(reader: Path) -> None:
    for line in lines("first-run")[:1] + lines("compare-two-methods")[:3]:
        typed(shortened(line))
    assert (reader / "runs/compare/report/index.html").exists()
    shutil.rmtree(reader / "runs")
    for line in lines("your-own-images"):
        place = f"runs/{only_run(reader).name}" if "runs/RUN" in line else ""
        typed(shortened(line).replace("runs/RUN", place))
    assert len((reader / "predictions.csv").read_text().splitlines()) == 1 + len(
        list((reader / "scans/zero").iterdir())
    )


@pytest.mark.slow
def test_the_page_on_tables_works(reader: Path) -> None:
    (reader / "make_wine.py").write_text(example("make_wine.py"))
    first, *others = [line for line in lines("train-on-tables", "how-to") if "deploy" not in line]
    for line in (*others, first):
        typed(shortened(line))
    rows = (reader / "wine" / "rows.csv").read_text().splitlines()
    assert len((reader / "predictions.csv").read_text().splitlines()) == len(rows) == 179
    assert (reader / "wine_model" / "model_card.md").exists()


@pytest.mark.slow
def test_the_page_on_several_labels_works(reader: Path) -> None:
    (reader / "make_topics.py").write_text(example("make_topics.py"))
    making.tree(reader / "xrays", ["scans"], 12)
    names = ("edema|effusion", "edema", "", "effusion")
    rows = [f"scans/pic_{image:03}.png,{names[image % 4]}" for image in range(12)]
    (reader / "xrays" / "images.csv").write_text("\n".join(["image,labels", *rows, ""]))
    first, images, *others = lines("learn-several-labels", "how-to")
    small = "data.image_size=32 partition.min_images=3"
    for line in (*others, first, f"{images} num_clients=2 partition=iid {small}"):
        typed(shortened(line))
    assert len((reader / "topics.csv").read_text().splitlines()) == 1301
    assert (reader / "topics_model" / "model_card.md").exists()


@pytest.mark.slow
def test_the_tutorial_of_two_sites_works(reader: Path) -> None:
    port, internal = free_ports(2)
    with served() as serve:
        for line in lines("two-sites"):
            command = line.replace(":8000", f":{port}")
            if line.startswith(f"univarfl {SERVES[0]}"):
                serve(f"{command} --port {port} --internal-port {internal}", "ready")
            elif line.startswith(f"univarfl {SERVES[1]}"):
                serve(command, "joined")
            else:
                said = typed(command.replace("rounds=3", "rounds=1"))
    assert "round 1/1" in said
    assert "clients 2/2" in said


@pytest.mark.slow
def test_the_pages_on_deployment_work(reader: Path) -> None:
    making.tree(reader / "skin", ["benign", "malignant"], 12)
    port, internal = free_ports(2)
    revoked = reader / "federation" / "sites" / "revoked"
    said, asked = "", [*lines("deploy", "how-to"), *lines("manage-sites", "how-to")]
    with served() as serve:
        for line in asked:
            command = line.replace("fl.example.org", "localhost").replace(":8000", f":{port}")
            command = command.replace("/data/skin", str(reader / "skin"))
            if line.startswith(f"univarfl {SERVES[0]}"):
                said = serve(f"{command} --port {port} --internal-port {internal}", "ready")
            elif line.startswith(f"univarfl {SERVES[1]}"):
                digits = re.search(r"[0-9a-f]{12,64}", said)
                assert digits
                for site in SITES:
                    serve(of(command, site).replace("HASH", digits[0]), "joined")
            elif " deploy check " in line:
                for site in SITES:
                    typed(of(command, site).replace(" --expect HASH", ""))
            elif " --data " in line:
                for site in SITES:
                    typed(of(command, site))
                    shutil.copy(reader / site / f"{site}.pub", reader / "federation" / "sites")
                    shutil.copy(reader / "federation" / "ca.crt", reader / site)
            elif " deploy run " in line:
                assert "clients 2/2" in typed(command.replace("rounds=20", "rounds=1"))
            elif " --verify " in line:
                shutil.copy(reader / SITES[0] / f"{SITES[0]}.rotation", reader)
                assert "its old key signed this" in typed(command)
                shutil.copy(reader / f"{SITES[0]}.rotation", reader / "federation" / "sites")
                until(lambda: list(revoked.glob("*.pub")), "the new key")
            else:
                typed(command)
    assert len(asked) == 9
    assert not (reader / "federation" / "sites" / f"{SITES[0]}.pub").exists()


def of(command: str, site: str) -> str:
    """Return a command of the first site for another one."""
    return command.replace(SITES[0], site)


@contextmanager
def served() -> Iterator[Callable[[str, str], str]]:
    """Yield a function that starts a command, waits for a text and returns what was printed.

    All commands are ended afterwards.
    """
    started: list[subprocess.Popen[str]] = []

    def serve(line: str, ready: str) -> str:
        process = subprocess.Popen(
            line.split(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append(process)
        assert process.stdout is not None
        said = ""
        for shown in process.stdout:
            said += shown
            if ready in shown:
                break
        else:
            raise AssertionError(f"{line} ended")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        return said

    try:
        yield serve
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(60)
