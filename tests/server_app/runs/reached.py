"""The modules of the apps that some run imports."""

from server_app.runs import identity
from task.extensions import PACKAGES
from task.registry import module_of, names

FOLDERS = ("client_app", "server_app", "task", "univarfl")


def all_components() -> set[str]:
    """Return the modules of all components."""
    return {module_of(group, name) for group in PACKAGES for name in names(group)}


def reached_modules() -> set[str]:
    """Return the modules that the apps and all components import, also inside functions."""
    reached: set[str] = set()
    waiting = ["server_app.app", "client_app.app", *all_components()]
    while waiting:
        name = waiting.pop()
        if name.split(".")[0] in FOLDERS and name not in reached and identity.source_of(name):
            reached.add(name)
            waiting += identity.imported_modules(name)
    return reached
