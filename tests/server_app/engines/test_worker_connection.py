"""What a worker process and the server send each other."""

import logging
import multiprocessing
import os
import struct

import pytest
from flwr.app import Message, MessageType, RecordDict

from server_app.engines.local.worker_processes import next_message, next_reply


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
