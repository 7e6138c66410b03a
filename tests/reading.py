"""Measure how much code a reader of one run passes.

    uv run python -m tests.reading

The run is FedProx on digits: `cnn`, Dirichlet split, one worker, without TensorBoard. Printed are

(a) the files that module-level imports reach from the two apps, the handlers of messages and the
    chosen components, without ``__init__.py`` and type-only imports;
(b) the files that a new process has imported when the ServerApp has completed this run over the
    local grid, from an experiment that was composed elsewhere;
(c) of the whole product: circles of files that import each other, with type-only and
    function-level imports; function-level imports that would be a circle at module level; and the
    share of lines that are imports.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import networkx

from client_app.kinds import HANDLERS

ROOT = Path(__file__).parent.parent
PRODUCT = ("client_app", "server_app", "task", "univarfl")
WORDS = [
    "method=fedprox", "data=digits", "model=cnn", "partition=dirichlet", "watch.tensorboard=false",
    "federation.workers=1", "engine=inprocess", "rounds=1", "local_epochs=1", "num_clients=2",
]  # fmt: skip
STARTS = (
    "server_app.app", "client_app.app", "client_app.handlers", "server_app.rounds.pace.synchronous",
)  # fmt: skip
ASKED = ("query", "train", "evaluate", "query.forget")  # the messages of the run
IN_A_PROCESS = """
import json, sys
from flwr.app import Context, RecordDict
from client_app.app import app as client_app
from server_app.app import app as server_app
from univarfl.engines.local.inprocess_grid import InProcessGrid
run_config = json.loads(sys.stdin.read())
server_app(grid=InProcessGrid(client_app, 1), context=Context(1, 0, {}, RecordDict(), run_config))
files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
print(json.dumps(sorted({file for file in files if file})))
"""


@dataclass(frozen=True)
class Import:
    """One import of a product's file by another.

    Attributes:
        module: the module that is imported.
        line: where.
        kind: ``module``, ``function`` or ``type``.
    """

    module: str
    line: int
    kind: str


def main() -> None:
    """Print the three parts."""
    files = product_files()
    imports = {name: list(imports_of(name, files)) for name in files}
    handlers = [HANDLERS[kind].work.partition(":")[0] for kind in ASKED]
    reached = closure(imports, [*STARTS, *handlers, *chosen_components()])
    shown = [files[name] for name in reached if files[name].name != "__init__.py"]
    print(f"(a) module-level imports   {size(shown)}")
    print(f"(b) imported in a run      {size(imported_in_a_run())}")
    for circle in circles(imports):
        print(f"(c) circle of {len(circle)} files: {', '.join(circle)}")
    hidden = list(hidden_circles(imports))
    for name, each in hidden:
        print(f"(c) hides a circle: {name}, line {each.line}: {each.module}")
    lines, of_imports = import_lines(files.values())
    in_functions = sum(each.kind == "function" for found in imports.values() for each in found)
    print(
        f"(c) {len(files)} files, {lines:,} lines, {of_imports / lines:.1%} imports; "
        f"{len(circles(imports))} circles; {in_functions} function-level imports, "
        f"{len(hidden)} of which hide a circle"
    )


def product_files() -> dict[str, Path]:
    """Return the product's Python files by the names of their modules."""
    paths = (path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py")))
    return {module_name(path): path for path in paths}


def module_name(path: Path) -> str:
    """Return the dotted name of a file; a package's for its ``__init__.py``."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def size(paths: Collection[Path]) -> str:
    """Return the number of files and of their lines, as text."""
    return f"{len(paths)} files, {sum(line_count(path) for path in paths):,} lines"


def line_count(path: Path) -> int:
    """Return the number of lines in a file."""
    return len(path.read_text().splitlines())


def imports_of(name: str, files: Mapping[str, Path]) -> Iterator[Import]:
    """Yield the product's modules that a module imports."""
    for node, kind in statements(ast.parse(files[name].read_text()), "module"):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [each if each in files else str(node.module) for each in found]
        for module in dict.fromkeys(found):
            if module in files and module != name:
                yield Import(module, node.lineno, kind)


def statements(node: ast.AST, kind: str) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    """Yield each import below a node, with its kind."""
    for child in ast.iter_child_nodes(node):
        inside = kind
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = "function"
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            inside = "type"
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, inside
        else:
            yield from statements(child, inside)


def chosen_components() -> list[str]:
    """Return the modules of the components that the experiment names."""
    from server_app.config.composition import compose_settings
    from task.extensions import PACKAGES

    settings = compose_settings(WORDS)
    return [f"{package}.{settings[group]['name']}" for group, package in PACKAGES.items()]


def closure(imports: Mapping[str, Collection[Import]], starts: Collection[str]) -> list[str]:
    """Return the modules that module-level imports reach, in the order of their names."""
    reached, waiting = set(starts), deque(starts)
    while waiting:
        for each in imports[waiting.popleft()]:
            if each.kind == "module" and each.module not in reached:
                reached.add(each.module)
                waiting.append(each.module)
    return sorted(reached)


def imported_in_a_run() -> list[Path]:
    """Return the product's files that a process has imported at the end of the run."""
    from server_app.config.composition import compose_experiment
    from server_app.config.run_config import Submitted
    from univarfl.engines.run_config import to_run_config

    with tempfile.TemporaryDirectory() as place:
        experiment = compose_experiment(WORDS).placed(Path(place) / "run")
        finished = subprocess.run(
            [sys.executable, "-c", IN_A_PROCESS],
            input=json.dumps(to_run_config(Submitted(experiment, WORDS))),
            env={**os.environ, "PYTHONPATH": str(ROOT), "UNIVARFL_MEMORY": place},
            stdout=subprocess.PIPE, text=True, check=True, cwd=place,
        )  # fmt: skip
    found = map(Path, json.loads(finished.stdout.splitlines()[-1]))
    mine = set(product_files().values())
    return [path for path in found if path in mine]


def circles(imports: Mapping[str, Collection[Import]]) -> list[list[str]]:
    """Return the groups of modules each of which reaches the others, by imports of any kind."""
    graph = networkx.DiGraph(
        [(name, each.module) for name, found in imports.items() for each in found]
    )
    groups = networkx.strongly_connected_components(graph)
    return sorted((sorted(group) for group in groups if len(group) > 1), key=len, reverse=True)


def hidden_circles(imports: Mapping[str, Collection[Import]]) -> Iterator[tuple[str, Import]]:
    """Yield function-level imports of a module that reaches back by module-level imports."""
    for name, found in imports.items():
        for each in found:
            if each.kind == "function" and name in closure(imports, [each.module]):
                yield name, each


def import_lines(paths: Collection[Path]) -> tuple[int, int]:
    """Return the number of lines, and of those that belong to an import."""
    lines = of_imports = 0
    for path in paths:
        text = path.read_text()
        lines += len(text.splitlines())
        for node, _ in statements(ast.parse(text), "module"):
            of_imports += (node.end_lineno or node.lineno) - node.lineno + 1
    return lines, of_imports


if __name__ == "__main__":
    main()
