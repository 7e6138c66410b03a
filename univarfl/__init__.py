"""UniVarFL and related methods for federated learning on non-IID data."""

from importlib.metadata import version

__version__ = version("univarfl")
