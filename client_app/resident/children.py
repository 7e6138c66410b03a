"""The worker's side of a process that works on one message."""

import contextlib
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import psutil

from client_app.resident import frames
from client_app.resident.limits import LimitError, Limits

if TYPE_CHECKING:
    from client_app.resident.forks import ForkServer

TICK_SECONDS, PATIENCE_SECONDS = 0.1, 2.0


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
