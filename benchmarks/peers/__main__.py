"""Run one peer, ``MODULE LAYOUT WORK.npz``, in its own process, as libraries change settings."""

import json
import sys
from importlib import import_module

import numpy as np

from benchmarks.bare_loop import Work

if __name__ == "__main__":
    with np.load(sys.argv[3]) as data:
        work = Work.of_arrays(dict(data))
    seconds = import_module(f"benchmarks.peers.{sys.argv[1]}").run(work, sys.argv[2])
    print(f"\n{json.dumps(seconds)}")
