"""The coordinator's programs: they use TLS and admit the sites whose keys they were given."""

import errno
import socket
import time
from contextlib import ExitStack

from task.errors import ConfigError, system_reason
from task.machine.files import ONLY_OWNER
from univarfl.deploy.exclusive import hold_alone
from univarfl.deploy.membership.doubles import Doubles
from univarfl.deploy.membership.registry import Registry
from univarfl.deploy.places import CoordinatorPlace, is_host, listening_socket, refuse_unusable
from univarfl.deploy.programs import LOOPBACK, GateProgram, Program, SuperLinkProgram
from univarfl.flower.programs import write_connection

POLL_SECONDS = 1.0


class CoordinatorServices:
    """A context manager around the SuperLink and the gate.

    Args:
        place: keys, database and records.
        listen: the address on which the gate listens.
        port: the port on which the gate listens.
        internal_port: the SuperLink's port on 127.0.0.1.
    """

    def __init__(self, place: CoordinatorPlace, listen: str, port: int, internal_port: int) -> None:
        self.place = place
        self._ports = {port: listen, internal_port: LOOPBACK}
        self.superlink = SuperLinkProgram(place, internal_port)
        self.gate = GateProgram(place, listen, port, internal_port)
        self.programs: tuple[Program, ...] = (self.superlink, self.gate)
        self._running = ExitStack()
        self.registry, self.doubles = Registry(place), Doubles(place)

    def __enter__(self) -> "CoordinatorServices":
        """Start both programs, and return once they are ready.

        Raises:
            ConfigError: a port is in use, or a file cannot be written.
            FlowerError: a program ended or took too long.
            RunError: a coordinator runs already with this directory. Its database is for one
                SuperLink, and its connection for one port.
        """
        runs_already = (
            f"a coordinator runs already with the directory {self.place.directory}; stop it first, "
            "or use another directory"
        )
        with ExitStack() as stack:
            stack.enter_context(hold_alone(self.place.lock, runs_already))
            stack.callback(self._stop)
            self._start()
            self._running = stack.pop_all()
        return self

    def _start(self) -> None:
        for port, listen in self._ports.items():
            refuse_taken_port(listen, port)
        with refuse_unusable(self.place.directory):
            self.place.directory.chmod(ONLY_OWNER)
            self.place.make_flower_directory()
            write_connection(self.place.flower, self.superlink.address, self.place.authority)
            for program in self.programs:
                program.start()
        for program in self.programs:
            program.wait_until_ready()

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def _stop(self) -> None:
        for program in reversed(self.programs):
            program.stop()

    def serve(self) -> None:
        """Register sites as their keys appear, until this process is asked to end.

        Raises:
            FlowerError: one of the programs ends too often.
        """
        while True:
            for program in self.programs:
                program.keep_running()
            for line in (*self.registry.update(), *self.doubles.update()):
                print(line, flush=True)
            time.sleep(POLL_SECONDS)


def refuse_taken_port(listen: str, port: int) -> None:
    """Raise an error if a program cannot listen there.

    Raises:
        ConfigError: the address is not this machine's, or the port is in use or not allowed.
    """
    if not is_host(listen):
        raise ConfigError("--listen", listen, "must be an address of this machine, without a port")
    with listening_socket(socket.socket, listen) as probe:
        try:
            probe.bind((listen, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                allowed = "is in use; if no coordinator runs here, choose another with --port"
                raise ConfigError("--port", port, allowed) from None
            allowed = f"this machine cannot listen on port {port} there: {system_reason(error)}"
            raise ConfigError("--listen", listen, allowed) from None
