"""Run one peer, ``MODULE WORK.npz``, in its own process: the libraries change global settings."""

import json
import sys
from importlib import import_module

import numpy as np

from benchmarks.bare_loop import Work

if __name__ == "__main__":
    with np.load(sys.argv[2]) as data:
        work = Work.of_arrays(dict(data))
    seconds = import_module(f"benchmarks.peers.{sys.argv[1]}").run(work)
    print(f"\n{json.dumps(seconds)}")
