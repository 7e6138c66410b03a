"""The names that a package imports to add a method, model, strategy or data source to univarfl.

Such a package names each component in its ``pyproject.toml``, in the group `univarfl.methods`,
`univarfl.models`, `univarfl.strategies` or `univarfl.data`. It has the name of its module::

    [project.entry-points."univarfl.methods"]
    logit_decay = "my_package.logit_decay"

The module defines one subclass of `Method`, `ModelSettings`, `StrategySettings` or `Source`: a
dataclass, whose fields are its settings. Their values are in
``my_package/conf/method/logit_decay.yaml`` (or ``model/``, ``strategy/``, ``data/``), which begins
with ``name: logit_decay``. univarfl's own names have precedence.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

# In a run, the application is already imported, perhaps from a submitted bundle: do not replace it.
if "task" not in sys.modules:
    import univarfl.application  # noqa: F401

if TYPE_CHECKING:
    from server_app.aggregation.strategies.base import COMMON_ARGUMENTS, StrategySettings
    from server_app.aggregation.strategies.families.weighted import WeightedSettings
    from task.data.sources.base import DatasetIndex, Source
    from task.data.sources.families.directory_source import DirectorySource
    from task.errors import ConfigError, DataError, TrainingError, refuse
    from task.methods.base import Contribution, LocalRound, Method, Outcome, ServerUpdate, Term
    from task.models.base import ModelSettings, Network, Output
    from task.optim.parameters import gradients_of, snapshot, teacher, trained_parameters, zeros
    from task.tensors import Tensors

__all__ = [
    "COMMON_ARGUMENTS",
    "ConfigError",
    "Contribution",
    "DataError",
    "DatasetIndex",
    "DirectorySource",
    "LocalRound",
    "Method",
    "ModelSettings",
    "Network",
    "Outcome",
    "Output",
    "ServerUpdate",
    "Source",
    "StrategySettings",
    "Tensors",
    "Term",
    "TrainingError",
    "WeightedSettings",
    "gradients_of",
    "refuse",
    "snapshot",
    "teacher",
    "trained_parameters",
    "zeros",
]

_MODULES = {
    "server_app.aggregation.strategies.base": ("COMMON_ARGUMENTS", "StrategySettings"),
    "server_app.aggregation.strategies.families.weighted": ("WeightedSettings",),
    "task.data.sources.base": ("DatasetIndex", "Source"),
    "task.data.sources.families.directory_source": ("DirectorySource",),
    "task.errors": ("ConfigError", "DataError", "TrainingError", "refuse"),
    "task.models.base": ("ModelSettings", "Network", "Output"),
    "task.tensors": ("Tensors",),
    "task.optim.parameters": ("gradients_of", "snapshot", "teacher", "trained_parameters", "zeros"),
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use: clients of a run must not import the server's code."""
    if name not in __all__:
        raise AttributeError(f"module 'univarfl.extend' has no attribute {name!r}")
    found = (module for module, names in _MODULES.items() if name in names)
    return getattr(importlib.import_module(next(found, "task.methods.base")), name)


def __dir__() -> list[str]:
    return list(__all__)
