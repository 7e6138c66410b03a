"""Start Ray and keep it until this process is ended; `univarfl.engines.superlink` runs this file.

Called as ``python ray_host.py PORT CPUS DIRECTORY``. The program ``ray start`` would also start a
server for Ray's remote clients, which nobody asked for and which listens on a fixed port.
"""

import os
import signal
import sys

PORT = "RAY_GCS_SERVER_PORT"  # the environment variable from which Ray reads its port
READY = "Ray is ready"


def host(port: str, cpus: int, directory: str) -> None:
    """Start Ray, say that it is ready, and wait for a signal.

    Args:
        port: where it listens.
        cpus: the number of CPUs that it offers.
        directory: where it keeps the files of its session.
    """
    import ray  # noqa: PLC0415  (takes a second; who starts this program imports this file, too)

    os.environ[PORT] = port
    ray.init(
        "local", num_cpus=cpus, include_dashboard=False, log_to_driver=False, _temp_dir=directory
    )
    print(READY, flush=True)
    signal.pause()


if __name__ == "__main__":
    host(sys.argv[1], int(sys.argv[2]), sys.argv[3])
