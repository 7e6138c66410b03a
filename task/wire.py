"""The names under which server and clients find things in each other's messages.

A request holds ``ARRAYS`` (the global weights) and ``REQUEST`` (``experiment``, a `LocalConfig` as
JSON; ``fingerprint``; ``round``; ``clients``). Its reply holds, for each client of the cohort, a
record of each kind below under ``key(kind, client)``.
"""

ARRAYS = "arrays"
REQUEST = "request"
INTRODUCTION = "introduction"

METRICS = "metrics"
STATUS = "status"

LOSS_PREFIX = "loss/"


def key(kind: str, client: int) -> str:
    """Where a client's record of one kind stands in its cohort's reply."""
    return f"{kind}/{client}"
