"""The work of the bare loop by BlazeFL (3.0.0) in a pool of two processes."""

from functools import partial

from benchmarks.peers.with_blazefl import run as run_blazefl

run = partial(run_blazefl, processes=2)
