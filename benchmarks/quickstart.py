"""Do the bare loop's work with `quickstart_app`, written in the style of Flower's quickstarts."""

import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.bare_loop import Work
from univarfl.engines.superlink import PrivateSuperLink

APP = Path(__file__).parent / "quickstart_app"
FEDERATION = "init-args-num-cpus=2 client-resources-num-cpus=1 client-resources-num-gpus=0"


def run(work: Work) -> list[float]:
    """Run the work, two clients at a time, and return the seconds of each round.

    Raises:
        RuntimeError: the run did not finish.
    """
    with tempfile.TemporaryDirectory() as place, PrivateSuperLink() as superlink:
        data, result = Path(place) / "work.npz", Path(place) / "seconds.json"
        np.savez(data, **work.arrays())
        config = f'work="{data}" result="{result}"'
        federation = f"num-supernodes={len(work.clients)} {FEDERATION}"
        log = Path(place) / "flower.log"
        superlink.wait_until_ready()
        with log.open("w") as output:
            superlink.popen(
                ["flwr", "run", str(APP), "--stream", "--run-config", config,
                 "--federation-config", federation],
                output,
            ).wait(600)  # fmt: skip
        if not result.exists():
            raise RuntimeError(log.read_text())
        return list(json.loads(result.read_text()))
