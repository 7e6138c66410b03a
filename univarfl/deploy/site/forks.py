"""The worker's side of the fork server, and of the processes that it forks."""

import contextlib
import hashlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable

import psutil

from univarfl.application import DIRECTORY
from univarfl.deploy.site import frames
from univarfl.deploy.site.limits import LimitError, Limits, memory_limit

STARTS, WINDOW_SECONDS = 5, 600.0  # so many starts are allowed within this time
START_SECONDS, LOAD_SECONDS, END_SECONDS = 180.0, 60.0, 20.0
TICK_SECONDS, PATIENCE_SECONDS = 0.1, 2.0
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
NVML_CHECK = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
PROGRAM = "univarfl.deploy.site.fork_server"

NOTHING_TO_LOAD = b"{}"

logger = logging.getLogger("univarfl.client")


class ChildLostError(RuntimeError):
    """The process that worked on a message has ended without a reply."""


class Child:
    """A process that works on one message.

    Args:
        server: the fork server.
        channel: the socket to the child.
        process: the child.
        memory: the most resident memory that it may have, in bytes.

    Attributes:
        limits: what the child may use.
        wait: called several times a second while this process waits for the child.
    """

    def __init__(
        self, server: "ForkServer", channel: socket.socket, process: psutil.Process, memory: int
    ) -> None:
        self._server, self._channel, self._process = server, channel, process
        self._inbox, self._ending = frames.Inbox(), ""
        self.limits = Limits(process, memory)
        self.wait: Callable[[], None] = lambda: None
        channel.setblocking(False)

    def send(self, data: bytes) -> None:
        """Send frames to the child.

        Raises:
            ChildLostError: it has ended, or exceeded a limit.
        """
        rest = memoryview(data)
        while rest:
            self._pause(writing=True)
            try:
                rest = rest[self._channel.send(rest) :]
            except BlockingIOError:
                continue
            except OSError:
                raise ChildLostError(self.end(PATIENCE_SECONDS)) from None

    def receive(self) -> frames.Frame:
        """Wait for a frame of the child.

        Raises:
            ChildLostError: it has ended, or exceeded a limit.
        """
        while (frame := self._inbox.take()) is None:
            self._pause(writing=False)
            try:
                part = self._channel.recv(frames.PART)
            except BlockingIOError:
                continue
            except OSError:
                part = b""
            if not part:
                raise ChildLostError(self.end(PATIENCE_SECONDS))
            self._inbox.add(part)
        return frame

    def _pause(self, writing: bool) -> None:
        """Wait a moment until the channel can be used, and compare the child with its limits."""
        self.wait()
        wanted = [self._channel]
        select.select([] if writing else wanted, wanted if writing else [], [], TICK_SECONDS)
        try:
            self.limits.check()
        except LimitError as error:
            self.end()
            raise ChildLostError(str(error)) from None

    def end(self, patience: float = 0.0) -> str:
        """Return how the child has ended; kill it if it still runs.

        Args:
            patience: how many seconds it may take to end by itself.
        """
        if self._channel.fileno() >= 0:
            self._channel.close()
            if not self._server.reports_end(patience):
                with contextlib.suppress(psutil.Error):
                    self._process.kill()
            self._ending = self._server.end_of_child()
        return self._ending


def describe(status: int) -> str:
    """Return how a process has ended, from its wait status."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"it ended with signal {signal.Signals(-code).name}"
    return f"it ended with code {code}"


class ForkServerLostError(RuntimeError):
    """The fork server has ended."""


class ForkServerFailedError(RuntimeError):
    """The fork server has ended too often."""


class ForkServer:
    """The process that forks children, started again when it ends.

    Args:
        program: the module that it runs.
        memory: the most resident memory that a child may have, in bytes.
    """

    def __init__(self, program: str = PROGRAM, memory: int | None = None) -> None:
        self._program, self._memory = program, memory or memory_limit()
        self._starts: deque[float] = deque(maxlen=STARTS)
        self._loaded, self._not_loadable = b"", set[bytes]()
        self._start()

    def _start(self) -> None:
        now = time.monotonic()
        if len(self._starts) == STARTS and now - self._starts[0] < WINDOW_SECONDS:
            raise ForkServerFailedError(
                f"the process that answers messages ended {STARTS} times within "
                f"{WINDOW_SECONDS / 60:.0f} minutes; its last lines are above"
            )
        self._starts.append(now)
        own, other = socket.socketpair()
        environment = {**os.environ, **ONE_THREAD, **NVML_CHECK}
        code = str(DIRECTORY)  # before packages that the site added
        others = os.environ.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{code}{os.pathsep}{others}" if others else code
        with other:
            self._process = subprocess.Popen(  # noqa: S603  (our own arguments, no shell)
                [sys.executable, "-P", "-m", self._program, str(other.fileno())],
                pass_fds=[other.fileno()], env=environment, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self._control, self._inbox = own, frames.Inbox()
        self._loaded, self._busy_until = b"", now + START_SECONDS
        self._ready = False

    def stop(self) -> None:
        """End the fork server."""
        self._process.kill()
        self._process.wait()
        self._control.close()

    def watch(self) -> None:
        """Take note of what the fork server has finished, and start it again if it has ended.

        Raises:
            ForkServerFailedError: it has ended too often.
        """
        try:
            while self._readable(0.0):
                self._ready = self._receive().kind == frames.READY
            if not self._ready and time.monotonic() > self._busy_until:
                raise ForkServerLostError("it took too long")
        except ForkServerLostError as error:
            self._restart(error)

    def _restart(self, reason: Exception) -> None:
        logger.error("the fork server is started again: %s", reason)
        if self._loaded and not self._ready:
            self._not_loadable.add(self._loaded)
        self.stop()
        self._start()

    def load(self, wish: bytes) -> None:
        """Let the fork server load an experiment, which it does beside this process's work.

        Args:
            wish: the experiment and the node's settings as JSON; empty for nothing.
        """
        key = hashlib.sha256(wish).digest()
        if not wish or key == self._loaded or key in self._not_loadable:
            return
        with contextlib.suppress(OSError):  # `watch` notices its end
            self._control.sendall(frames.pack(frames.PRELOAD, wish))
        self._loaded, self._ready = key, False
        self._busy_until = time.monotonic() + LOAD_SECONDS

    def unload(self) -> None:
        """Let the fork server drop what it has loaded, which every child would have in memory."""
        if self._loaded:
            self.load(NOTHING_TO_LOAD)
            self._loaded = b""

    def fork(self, wait: Callable[[], None]) -> Child:
        """Return a new child, as soon as the fork server is ready.

        Args:
            wait: called several times a second while it is not.

        Raises:
            ChildLostError: the child has ended at once.
            ForkServerFailedError: the fork server has ended too often.
        """
        while True:
            self.watch()
            if not self._ready:
                wait()
                self._readable(TICK_SECONDS)
                continue
            own, other = socket.socketpair()
            try:
                with other:
                    command = frames.pack(frames.FORK)
                    socket.send_fds(self._control, [command], [other.fileno()])
                process = psutil.Process(int(self._answer(frames.CHILD)))
            except psutil.Error:
                own.close()
                raise ChildLostError(self.end_of_child()) from None
            except (OSError, ForkServerLostError) as error:
                own.close()
                self._restart(error)
            else:
                return Child(self, own, process, self._memory)

    def reports_end(self, seconds: float) -> bool:
        """Wait for the end of the child; return whether it came within the time."""
        return self._readable(seconds)

    def end_of_child(self) -> str:
        """Return how the child has ended, which has been killed if it did not end by itself."""
        try:
            return describe(int(self._answer(frames.ENDED)))
        except ForkServerLostError as error:
            self._restart(error)
            return "the process that forked it has ended"

    def _answer(self, kind: bytes) -> bytes:
        if not self._readable(END_SECONDS) or (frame := self._receive()).kind != kind:
            raise ForkServerLostError("it does not answer")
        return frame.data

    def _readable(self, seconds: float) -> bool:
        return self._inbox.complete or bool(select.select([self._control], [], [], seconds)[0])

    def _receive(self) -> frames.Frame:
        try:
            frame = frames.receive(self._control, self._inbox)
        except OSError as error:
            raise ForkServerLostError(type(error).__name__) from None
        if frame is None:
            raise ForkServerLostError("it has ended")
        return frame
