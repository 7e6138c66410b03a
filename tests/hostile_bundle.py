"""A Flower app whose client writes a file when it is imported, submitted to a SuperLink itself."""

import json
import subprocess
from pathlib import Path

from tests.machines import COORDINATOR, Machines
from univarfl.flower.programs import environment, installed_program

FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "hostile"
version = "1.0.0"
[tool.hatch.build.targets.wheel]
packages = ["hostile"]
[tool.flwr.app]
publisher = "stranger"
[tool.flwr.app.components]
serverapp = "hostile.server:app"
clientapp = "hostile.client:app"
[tool.flwr.app.config]
""",
    "hostile/__init__.py": "",
    "hostile/server.py": """\
from pathlib import Path
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()

@app.main()
def main(grid, context):
    order = RecordDict({{"order": ConfigRecord({{"do": "anything"}})}})
    messages = [Message(order, node, "train") for node in grid.get_node_ids()]
    replies = grid.send_and_receive(messages, timeout=120)
    Path({answers!r}).write_text("\\n".join(str(reply.error.reason) for reply in replies))
""",
    "hostile/client.py": """\
from pathlib import Path
from flwr.clientapp import ClientApp

Path({harm!r}).write_text("the site has run this")
app = ClientApp()

@app.train()
def train(message, context):
    return message
""",
}


def submit(machines: Machines, place: Path) -> tuple[Path, Path, str]:
    """Submit the app where the SuperLink runs, past the gate.

    Returns:
        The file that a site writes if it imports the app; a file with the sites' answers; and the
        bundle's SHA-256.
    """
    harm, answers, app = place / "harm", place / "answers", place / "hostile"
    for name, text in FILES.items():
        path = app / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(harm=str(harm), answers=str(answers)) if "{" in text else text)
    home = machines.federation / "flower"
    flower = machines.on(COORDINATOR, [installed_program("flwr")])
    listed = subprocess.run(
        [*flower, "run", str(app), "--format", "json"], cwd=place, env=environment(home),
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    run = str(json.loads(listed[listed.index("{") :])["run-id"])
    listed = subprocess.run(
        [*flower, "ls", "--format", "json"], cwd=place, env=environment(home),
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    runs = json.loads(listed[listed.index("{") :])["runs"]
    (bundle,) = (entry["fab-hash"] for entry in runs if str(entry["run-id"]) == run)
    return harm, answers, str(bundle)
