"""Federated learning on non-IID data: UniVarFL and related methods, with Flower."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from task.errors import ConfigError, DataError, DeviceError, RunError
    from univarfl.local_training import LocalTraining
    from univarfl.method_strategy import MethodStrategy
    from univarfl.names import data_sets, methods, models, strategies
    from univarfl.run import Run, load_run
    from univarfl.runs import Runs, load_runs
    from univarfl.training import sweep, train

__version__: str
__all__ = [
    "ConfigError",
    "DataError",
    "DeviceError",
    "LocalTraining",
    "MethodStrategy",
    "Run",
    "RunError",
    "Runs",
    "data_sets",
    "load_run",
    "load_runs",
    "methods",
    "models",
    "strategies",
    "sweep",
    "train",
]

_ERRORS = ("ConfigError", "DataError", "DeviceError", "RunError")
_MODULES = {
    "local_training": ("LocalTraining",),
    "method_strategy": ("MethodStrategy",),
    "names": ("data_sets", "methods", "models", "strategies"),
    "run": ("Run", "load_run"),
    "runs": ("Runs", "load_runs"),
    "training": ("sweep", "train"),
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, because PyTorch and Flower take seconds."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("univarfl")
    if name in _ERRORS:
        importlib.import_module("univarfl.application")
        return getattr(importlib.import_module("task.errors"), name)
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"univarfl.{module}"), name)
    raise AttributeError(f"module 'univarfl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
