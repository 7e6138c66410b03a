"""The names that settings can choose from."""

import univarfl.application  # noqa: F401

# isort: split

from server_app.config.choices import names_in


def methods() -> list[str]:
    """Return the names for ``train(method=...)``, sorted."""
    return names_in("method")


def strategies() -> list[str]:
    """Return the names for ``train(strategy=...)``, sorted."""
    return names_in("strategy")


def data_sets() -> list[str]:
    """Return the names for ``train(data=...)``, sorted."""
    return names_in("data")


def models() -> list[str]:
    """Return the names for ``train(model=...)``, sorted."""
    return names_in("model")
