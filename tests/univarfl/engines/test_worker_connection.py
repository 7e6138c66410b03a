"""What a worker process and the server send each other."""

import logging
import multiprocessing
import os
import struct

import pytest
from flwr.app import Message, MessageType, RecordDict

from univarfl.engines.local.worker_processes import LogSender, next_message, next_reply


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("univarfl.client", logging.INFO, "", 0, text, None, None)


def test_all_records_are_read_at_once_up_to_the_reply(
    flower_identity: None, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("univarfl.client")
    logger.propagate = True
    logger.setLevel(logging.INFO)
    ours, theirs = multiprocessing.Pipe()
    for client in range(50):
        theirs.send(record(f"client {client}"))
    assert next_reply(ours) is None
    assert len(caplog.records) == 50
    theirs.send(record("last"))
    theirs.send(Message(RecordDict(), 1, MessageType.TRAIN))
    theirs.send(record("of the next message"))
    assert isinstance(next_reply(ours), Message)
    assert len(caplog.records) == 51
    theirs.close()
    with pytest.raises(EOFError):
        next_reply(ours)
    assert len(caplog.records) == 52


@pytest.mark.parametrize("sent", [b"", struct.pack("!i", 1000) + b"the beginning"])
def test_a_server_that_ends_in_the_middle_of_a_message_sends_no_more(sent: bytes) -> None:
    ours, theirs = multiprocessing.Pipe()
    os.write(ours.fileno(), sent)
    ours.close()
    assert next_message(theirs) is None


class Unsendable:
    """An argument of a log record that other processes cannot have."""

    def __str__(self) -> str:
        return "client 3"

    def __reduce__(self) -> str:
        raise TypeError


def test_what_a_worker_logs_is_sent_to_the_server() -> None:
    ours, theirs = multiprocessing.Pipe()
    logger = logging.Logger("univarfl.client")
    logger.addHandler(LogSender(theirs))
    logger.info("round %d: trained on %d images in %.1f s", 2, 30, 0.5)
    logger.warning("%s is slow", Unsendable())
    try:
        raise OSError("the disk is gone")
    except OSError:
        logger.exception("it failed")
    counted, slow, failed = (ours.recv() if ours.poll() else None for _ in range(3))
    assert counted and slow and failed  # noqa: PT018
    assert (counted.msg[:8], counted.args) == ("round %d", (2, 30, 0.5))
    assert slow.getMessage() == "client 3 is slow"
    assert (failed.levelname, failed.exc_info) == ("ERROR", None)
    assert failed.exc_text.endswith("OSError: the disk is gone")
    ours.close()
    logger.info("nobody hears this")
