"""A Flower grid whose SuperNodes are processes of our own, without SuperLink and Ray."""

import copy
import logging
import multiprocessing
import os
import pkgutil
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from uuid import uuid4

from flwr.app import Context, Message

from server_app.rounds.errors import WorkerLostError
from task.progress import PROGRESS
from univarfl.engines.local.grid import RUN_ID, LocalGrid
from univarfl.engines.local.internals import set_message_id, set_task_identity
from univarfl.engines.local.processes import CONTEXT, without_callers_script
from univarfl.engines.local.supernode import SuperNode, node_context

LONGEST_WAIT = 0.5  # seconds of a pull without a reply
GRACE_SECONDS = 5.0
VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"

clients = logging.getLogger("univarfl.client")


class WorkerProcesses(LocalGrid):
    """A grid of SuperNodes that each have a process, and work at the same time.

    A process that ends is not replaced: the server then stops the run, which is resumed with new
    processes.

    Args:
        client_app: the name of the ClientApp, MODULE:NAME.
        supernodes: the number of SuperNodes.
        gpus: the names of the GPUs that they share in turn; empty if they train on the CPU.
    """

    def __init__(self, client_app: str, supernodes: int, gpus: Iterable[str] = ()) -> None:
        super().__init__(supernodes)
        names = list(gpus)
        self._workers = {
            node_id: WorkerProcess(
                client_app,
                node_context(index, supernodes, in_server=False),
                names[index % len(names)] if names else None,
            )
            for index, node_id in enumerate(self._nodes)
        }

    def close(self) -> None:
        """End the processes: at once if they work, else after they have closed their files."""
        for worker in self._workers.values():
            worker.close()

    def _deliver(self, message_id: str, message: Message) -> None:
        """Send a message to its SuperNode's process, or queue it while that process works."""
        self._sent[message_id] = message
        worker = self._workers[message.metadata.dst_node_id]
        worker.queue.append((message_id, message))
        worker.advance()

    def _work(self, wanted: Iterable[str]) -> None:
        """Wait until a process answers, for `LONGEST_WAIT` at most.

        Raises:
            WorkerLostError: a process has ended.
        """
        by_connection = {
            worker.connection: worker for worker in self._workers.values() if worker.busy
        }
        for connection in wait(list(by_connection), LONGEST_WAIT):
            worker = by_connection[connection]  # type: ignore[index]
            for message_id, reply in worker.receive():
                del self._sent[message_id]
                set_message_id(reply, str(uuid4()))
                self._answered[message_id] = reply
                worker.advance()


class WorkerProcess:
    """The process of one SuperNode, seen by the server.

    Args:
        client_app: the name of the ClientApp, MODULE:NAME.
        context: the node's.
        gpu: the only GPU that the process sees; None for every one.

    Attributes:
        connection: to the process.
        queue: ids and messages that the process has not been given yet.
    """

    def __init__(self, client_app: str, context: Context, gpu: str | None) -> None:
        self.connection, theirs = CONTEXT.Pipe()
        self.queue: deque[tuple[str, Message]] = deque()
        self._current = ""  # the id of the message that the process works on
        level = clients.getEffectiveLevel()
        with without_callers_script():
            # The fork server has the environment of its start.
            wanted = {VISIBLE_GPUS: gpu, PROGRESS: os.environ.get(PROGRESS)}
            variables = {name: value for name, value in wanted.items() if value is not None}
            self._process = CONTEXT.Process(
                target=serve, args=(theirs, client_app, context, variables, level)
            )
            self._process.start()
        theirs.close()

    @property
    def busy(self) -> bool:
        """Return whether the process works on a message."""
        return bool(self._current)

    def advance(self) -> None:
        """Give the process its next message if it is free.

        Raises:
            WorkerLostError: the process has ended.
        """
        if self.busy or not self.queue:
            return
        self._current, message = self.queue.popleft()
        try:
            self.connection.send(message)
        except OSError:
            raise self._lost() from None

    def receive(self) -> Iterator[tuple[str, Message]]:
        """Read what the process has sent: log its records, and yield a reply and its message's id.

        Raises:
            WorkerLostError: the process has ended.
        """
        try:
            reply = next_reply(self.connection)
        except (EOFError, OSError):
            raise self._lost() from None
        if reply is not None:
            message_id, self._current = self._current, ""
            yield message_id, reply

    def close(self) -> None:
        """End the process: kill it if it works, else wait until it has ended."""
        if self.busy:
            self._process.kill()
        self.connection.close()
        self._process.join(GRACE_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _lost(self) -> WorkerLostError:
        self._process.join(GRACE_SECONDS)
        code = self._process.exitcode
        how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        return WorkerLostError(f"a worker's process has ended ({how})")


def next_reply(connection: Connection) -> Message | None:
    """Log the records that a process has sent, up to its reply; None if that is not there yet.

    A process sends a record for each client. It waits if nobody reads them, so all are read at
    once.

    Args:
        connection: to the process; something must be there.

    Raises:
        EOFError, OSError: the process has ended.
    """
    while True:
        received = connection.recv()
        if isinstance(received, Message):
            return received
        logging.getLogger(received.name).handle(received)
        if not connection.poll():
            return None


def serve(
    connection: Connection,
    client_app: str,
    context: Context,
    variables: Mapping[str, str],
    level: int,
) -> None:
    """Answer messages until the connection is closed; a SuperNode's process runs this.

    Args:
        connection: to the server.
        client_app: the name of the ClientApp, MODULE:NAME.
        context: the node's.
        variables: environment variables of this process alone.
        level: from which level on the clients' log is sent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server gets Ctrl-C too, and ends this
    threading.Thread(target=end_with_the_server, daemon=True).start()
    os.environ.update(variables)
    set_task_identity(RUN_ID)
    logging.getLogger("flwr").setLevel(logging.WARNING)
    clients.handlers = [LogSender(connection)]
    clients.propagate = False
    clients.setLevel(level)
    supernode = SuperNode(pkgutil.resolve_name(client_app), context)
    while (message := next_message(connection)) is not None:
        reply = supernode.handle(message)
        with suppress(OSError):  # the server has ended; there is no next message then
            connection.send(reply)


def next_message(connection: Connection) -> Message | None:
    """Return the server's next message; None if it has ended, also in the middle of a message."""
    try:
        message: Message = connection.recv()
    except (EOFError, OSError):
        return None
    return message


def end_with_the_server() -> None:
    """End this process when the server's process ends, even if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


class LogSender(logging.Handler):
    """Sends log records to the server's process.

    Args:
        connection: to the server.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def emit(self, record: logging.LogRecord) -> None:
        """Send a copy of a record; what cannot be sent of it becomes text."""
        record = copy.copy(record)
        if record.exc_info:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
        values = record.args.values() if isinstance(record.args, dict) else record.args or ()
        if not all(isinstance(each, str | int | float) for each in values):
            record.msg, record.args = record.getMessage(), None
        with suppress(OSError):
            self._connection.send(record)
