"""The symbols of the papers, such as mu, for settings of methods and strategies.

The comments in ``conf/method/`` and ``conf/strategy/`` say which setting a symbol stands for, as in
``proximal_weight: 0.01  # mu; FedAlign uses 1e-4``.
"""

import re
from collections.abc import Mapping
from functools import cache

from server_app.config.choices import choices, files_in
from server_app.config.vocabulary.keys import NAME, plain
from task.extensions import PLUS

GROUPS = ("method", "strategy")
SYMBOLS = ("alpha", "beta", "epsilon", "eta", "lambda", "mu", "rho", "tau")
# A clause that is a symbol, or begins or ends with one: "mu", "eta of the paper", "weight, lambda".
NAMED = re.compile(rf"(?:^|, |^the paper's )({'|'.join(SYMBOLS)})(?= of |$)")


@cache
def symbols_of(group: str, name: str) -> dict[str, str]:
    """Return the key of each symbol that the comments in a choice's file name."""
    found = {}
    for line in files_in(group)[name].read_text().splitlines():
        setting, _, comment = line.partition("#")
        key, colon, _ = setting.partition(":")
        if colon and (named := NAMED.search(comment.partition(";")[0].strip())):
            found[named[1]] = f"{group}.{key.strip()}"
    return found


def chosen_with_symbol(symbol: str, config: Mapping[str, object]) -> list[str]:
    """Return the keys that a symbol stands for in the chosen methods and strategy."""
    found = []
    for group in GROUPS:
        settings = config.get(group)
        names = str(settings.get(NAME)).split(PLUS) if isinstance(settings, Mapping) else []
        known = [symbols_of(group, name) for name in names if name in choices()[group]]
        found += [each[plain(symbol)] for each in known if plain(symbol) in each]
    return list(dict.fromkeys(found))


def owners_of(symbol: str) -> str:
    """Return the choices with a setting of that symbol as ``GROUP=A|B``; empty without one."""
    found = []
    for group in GROUPS:
        names = [name for name in choices()[group] if plain(symbol) in symbols_of(group, name)]
        if names:
            found.append(f"{group}={'|'.join(names)}")
    return ", ".join(found)
