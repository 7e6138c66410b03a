"""The names under which server and clients find things in each other's messages.

A request holds ``ARRAYS`` (the global weights), ``BROADCAST`` (what the method's server half sends)
and ``REQUEST`` (``run``, its id; ``experiment``, a `LocalConfig` as JSON; ``fingerprint``;
``round``; ``clients``; ``accepted``, for each of them the last round it was accepted in, or 0;
``data``, the version of a site's images as it introduced itself; ``shares``, for each client its
weight in the round's mean, where the worker is to add up its clients; else empty).
Its reply holds, for each client of the cohort, a record of each kind below under
``key(kind, client)``; where the worker adds up, the arrays are under ``key(kind, SUM)``, int64, as
`task.averaging.ExactSum` has them.
"""

ARRAYS = "arrays"
BROADCAST = "broadcast"
REQUEST = "request"
INTRODUCTION = "introduction"

METRICS = "metrics"
STATUS = "status"
EXTRA = "extra"
SUM = "sum"

LOSS_PREFIX = "loss/"

FORGET = "forget"

IN_PROCESS = "in-process"  # in a node's settings: it is simulated in the server's own process


def key(kind: str, client: int | str) -> str:
    """Where a client's record of one kind, or that of the `SUM`, stands in its cohort's reply."""
    return f"{kind}/{client}"
