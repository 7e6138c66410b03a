"""The generated pages by their place in the documentation."""

from functools import cache

from docs.generator import api, commands, components, experiments, run_files, settings
from task import registry

METHODS = (
    "`method=NAME` selects a local method; `+` joins several. [Choose a method]"
    "(../../how-to/choose-a-method.md) compares them. Symbols such as mu are those of the papers."
)
STRATEGIES = (
    "`strategy=NAME` selects how updates become the next global model. [Choose an aggregation]"
    "(../how-to/choose-an-aggregation.md) compares them."
)
GUARDS = (
    "`guard=NAME` selects which updates count, compared with the others of their round. "
    "[Choose an aggregation](../how-to/choose-an-aggregation.md#guards) compares them."
)
STAGES = (
    "`after=NAME` selects what happens to the global model after the last round. [Change the model "
    "after training](../how-to/change-the-model-after-training.md) shows how."
)
PARTICIPATIONS = (
    "`participation=NAME` selects who takes part in a round, and `clock=NAME` whether real seconds "
    "count or those of simulated devices. [Simulate slow and absent clients]"
    "(../how-to/simulate-slow-clients.md) shows how."
)
DATA_SETS = (
    "`data=NAME` selects a data set, which also sets its usual split, network, number of clients, "
    "rounds, local epochs and batch size. Your own words take precedence."
)
SPLITS = (
    "`partition=NAME` selects how images are split among clients, `augmentation=NAME` how training "
    "images are changed."
)
NETWORKS = (
    "`model=NAME` selects the network, `tune=NAME` [which part of it](../how-to/train-a-part.md) "
    "is trained. Every network also has the key `model.weights`: a file of weights, or a run "
    "directory, whose weights a run [starts from](../how-to/use-a-model.md#start-from-a-model)."
)


@cache
def pages() -> dict[str, str]:
    """Return the text of every generated page by its place below ``docs/``."""
    found = {
        "commands/index.md": commands.index(),
        "settings.md": settings.page(),
        "methods/index.md": components.index("Methods", METHODS, "method"),
        "strategies.md": components.page("Strategies", STRATEGIES, "strategy"),
        "guards.md": components.page("Guards", GUARDS, "guard"),
        "after-training.md": components.page("After training", STAGES, "after"),
        "participation.md": components.page(
            "Participation and clock", PARTICIPATIONS, "participation", "clock"
        ),
        "data/index.md": components.index("Data sets", DATA_SETS, "data"),
        "splits.md": components.page("Splits", SPLITS, "partition", "augmentation"),
        "networks.md": components.page("Networks", NETWORKS, "model", "tune"),
        "experiments.md": experiments.page(),
        "run-files.md": run_files.page(),
        "api.md": api.page(),
        "api-runs.md": api.runs_page(),
        "api-parts.md": api.parts_page(),
    }
    found |= {f"commands/{name}.md": text for name, text in commands.pages().items()}
    found |= {
        f"methods/{name}.md": components.component("method", name, "# method={name}") + "\n"
        for name in registry.names("method")
    }
    found |= {
        f"data/{name}.md": components.component("data", name, "# data={name}") + "\n"
        for name in registry.names("data")
    }
    return {f"reference/{place}": text for place, text in found.items()}
