"""Hash the results of small runs and the stored forms, to see what a change of the code changes.

    uv run python -m benchmarks.golden write FILE.json      (before a change; 5 minutes)
    uv run python -m benchmarks.golden compare FILE.json    (after it)
    uv run python -m benchmarks.golden forms                (writes tests/golden/forms.json)

*Runs*: the SHA-256 of final models. There are two rounds of each method, strategy and stage after
training, and of runs with masks, with noise from the seed, and on the virtual clock. Then come a
resumed run, the default run, and ``flwr run .`` on Ray. They are equal on one kind of machine only.
*Forms*: fields of messages, keys of ``run.json`` and checkpoints, columns of tables, and the texts
that seeds, hashes and signatures are made from. ``tests/golden/forms.json`` keeps them. The exit
code of ``compare`` is 1 if anything differs.
"""

import ast
import contextlib
import csv
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from client_app.kinds import HANDLERS
from server_app.config.choices import choices
from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.runs.records.run_record import read_record
from task.registry import named
from tests.conftest import model_for, needs_of, norm_for
from tests.interruption import ended_in
from univarfl.engines.superlink import PrivateSuperLink
from univarfl.engines.train import train_experiment

ROOT = Path(__file__).parents[1]
FORMS = ROOT / "tests" / "golden" / "forms.json"
SOURCES = ("client_app", "server_app", "task", "univarfl")
SMALL = (
    "rounds=2", "local_epochs=1", "num_clients=4", "watch.tensorboard=false",
)  # fmt: skip
NEAREST = ("secure.rounding=nearest", "strategy.weighting=uniform")
PARTICIPANTS = {"bulyan": 7, "krum": 5, "multikrum": 5, "fedtrimmedavg": 5}
SPECIAL = {
    "masked": ("secure=masked",),
    "masked, nearest": ("secure=masked", *NEAREST),
    "rounded": ("secure=rounded",),
    "private images": ("privacy=example", "privacy.reproducible=true", "method=fedavg",
                       "model.norm=group"),
    "private clients": ("privacy=client", "secure=masked", "privacy.reproducible=true",
                        "model=linear"),
    "momentum": ("optim.keep_momentum=true",),
    "two workers": ("federation.workers=2",),
    "half of the clients": ("rho=0.5", "method=scaffold"),
    "available": ("clock=virtual", "participation=available"),
}  # fmt: skip
OF_A_MACHINE = ("machine.", "versions.", "workers[].")  # keys that other machines may not have
SECONDS = 300  # of ``flwr run``
SEEDING = {"derived_seed", "numpy_generator", "torch_generator", "repeatable_bytes"}
HASHING = {"digest"}


def all_runs() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name and the words of each run in this process."""
    for method in choices()["method"]:
        yield f"method={method}", (f"method={method}", *model_for(method))
    for strategy in choices()["strategy"]:
        clients = (f"num_clients={PARTICIPANTS[strategy]}",) if strategy in PARTICIPANTS else ()
        noise = ("privacy.reproducible=true",) if norm_for(strategy) else ()  # it is private
        words = (f"strategy={strategy}", *needs_of(strategy), *clients, *noise)
        yield f"strategy={strategy}", words
    for after in choices()["after"]:
        more = ("after.steps=3",) if after == "feddf" else ()
        yield f"after={after}", (f"after={after}", *more)
    yield from SPECIAL.items()


def trained(place: Path, name: str, words: tuple[str, ...]) -> Path:
    """Run in this process; return the run's directory."""
    every = ["engine=inprocess", *SMALL, *words, f"output_dir={place}", f"run_id={name}"]
    train_experiment(compose_experiment(every), every)
    return place / name


def resumed(place: Path) -> Path:
    """Return the directory of a run that was interrupted and resumed."""
    directory = interrupted(place, "resumed")
    words = whole_words([f"resume={directory}"])
    train_experiment(compose_experiment(words), words)
    return directory


def interrupted(place: Path, name: str) -> Path:
    """Return the directory of a run that was interrupted in round 2."""
    with ended_in(2), contextlib.suppress(KeyboardInterrupt):
        trained(place, name, ("method=scaffold",))
    return place / name


def model_hash(directory: Path) -> str:
    """Return the SHA-256 of a run's model, from its record."""
    return read_record(directory).model_sha256


def flwr_run(place: Path) -> Path:
    """Return the directory of a run that ``flwr run .`` has made with Ray."""
    runs = place / "flwr"
    runs.mkdir()
    os.environ |= {"UNIVARFL_RUNS": str(runs), "UNIVARFL_MEMORY": str(place / "memory")}
    with PrivateSuperLink() as superlink, (place / "flwr.txt").open("w") as output:
        superlink.wait_until_ready()
        overrides = f'overrides="{" ".join(SMALL)}"'
        command = ["flwr", "run", str(ROOT), "--stream", "--run-config", overrides]
        superlink.popen(command, output).wait(SECONDS)
    found = list(runs.iterdir())
    if len(found) != 1:
        raise SystemExit((place / "flwr.txt").read_text())
    return found[0]


def run_hashes(place: Path) -> dict[str, str]:
    """Return the hash of each run's model, by name."""
    found = {}
    for number, (name, words) in enumerate(all_runs()):
        found[name] = model_hash(trained(place, f"run-{number}", words))
        print(f"{name}: {found[name][:16]}", file=sys.stderr, flush=True)
    found["resumed"] = model_hash(resumed(place))
    default = ["engine=inprocess", f"output_dir={place}", "run_id=default"]
    train_experiment(compose_experiment(default), default)
    found["default"] = model_hash(place / "default")
    found["flwr run ."] = model_hash(flwr_run(place))
    return found


def forms(place: Path) -> dict[str, Any]:
    """Return every stored form, as names that a reader can compare."""
    plain = trained(place, "forms", ("method=scaffold",))
    masked = trained(place, "forms-masked", ("secure=masked",))
    (checkpoint,) = (interrupted(place, "forms-ended") / "checkpoints").glob("*.safetensors")
    tables = {}
    for path in sorted(plain.glob("*.csv")):
        with path.open(newline="") as file:
            tables[path.name] = next(csv.reader(file))
    with safe_open(checkpoint, "pt") as file:
        facts = json.loads(file.metadata()["facts"])
    return {
        "messages": {
            f"{kind.message_type} {side}": fields(getattr(kind, side).model_json_schema())
            for kind in (named(each.kind) for each in HANDLERS.values())
            for side in ("request", "reply")
        },
        "run.json": sorted(
            path
            for path in paths(json.loads((plain / "run.json").read_text()))
            if not path.startswith(OF_A_MACHINE)
        ),
        "run.json, masked": sorted(
            paths(json.loads((masked / "run.json").read_text())["secure"])
        ),
        "tables": tables,
        "model": names_in(plain / "model.safetensors"),
        "seeds": texts_of(SEEDING),
        "hashes": texts_of(HASHING),
        "contexts": contexts(),
        "checkpoint": names_in(checkpoint),
        "checkpoint facts": sorted(paths(facts)),
    }  # fmt: skip


def fields(schema: Mapping[str, Any]) -> Any:
    """Return a JSON schema without the texts that only people read."""
    if isinstance(schema, dict):
        return {
            key: fields(value)
            for key, value in sorted(schema.items())
            if not (key in ("description", "title") and isinstance(value, str))
        }
    return [fields(each) for each in schema] if isinstance(schema, list) else schema


def paths(value: Any, place: str = "") -> set[str]:
    """Return the keys of nested objects; those of a list are the keys of its entries."""
    if isinstance(value, dict):
        inner = (paths(each, f"{place}.{key}" if place else key) for key, each in value.items())
        return {place}.union(*inner) - {""}
    if isinstance(value, list):
        return {place}.union(*(paths(each, f"{place}[]") for each in value))
    return {place}


def names_in(path: Path) -> list[str]:
    """Return the names of a file's tensors."""
    with safe_open(path, "pt") as file:
        return sorted(file.keys())


def texts_of(functions: set[str]) -> list[str]:
    """Return the texts that the code calls some functions with."""
    found = set()
    for path in source_files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in functions:
                texts = [
                    arg.value
                    for arg in node.args
                    if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
                ]
                if texts:
                    found.add(" ".join(texts))
    return sorted(found)


def contexts() -> list[str]:
    """Return the texts that every signature and hash of a kind begins with."""
    found = set()
    for path in source_files():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                value = node.value.value
                text = value.decode("latin-1") if isinstance(value, bytes) else value
                if isinstance(text, str) and text.startswith("univarfl: "):
                    found.add(text)
    return sorted(found)


def source_files() -> Iterator[Path]:
    """Yield the product's Python files."""
    for package in SOURCES:
        yield from sorted((ROOT / package).rglob("*.py"))


def main() -> int:
    """Write or compare; return the exit code."""
    torch.set_num_threads(1)
    if sys.argv[1:] == ["forms"]:
        with tempfile.TemporaryDirectory() as name:
            FORMS.write_text(json.dumps(forms(Path(name)), indent=1) + "\n")
        return 0
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "compare"):
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as name:
        found = {"forms": forms(Path(name)), "runs": run_hashes(Path(name))}
    file = Path(sys.argv[2])
    if sys.argv[1] == "write":
        file.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    known = json.loads(file.read_text())
    different = [
        f"{part}: {key}"
        for part in found
        for key in sorted(known[part].keys() | found[part].keys())
        if known[part].get(key) != found[part].get(key)
    ]
    print("\n".join(different) or f"{len(found['runs'])} runs and all forms are equal")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
