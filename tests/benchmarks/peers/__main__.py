"""Run one peer in a process of its own, since they change each other's: ``MODULE WORK.npz``."""

import json
import sys
from importlib import import_module

import numpy as np

from tests.benchmarks.bare_loop import Work

if __name__ == "__main__":
    with np.load(sys.argv[2]) as data:
        work = Work.of_arrays(dict(data))
    seconds = import_module(f"tests.benchmarks.peers.{sys.argv[1]}").run(work)
    print(f"\n{json.dumps(seconds)}")
