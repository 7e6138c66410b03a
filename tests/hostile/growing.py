"""An object of Flower's that is small until it is built."""

from flwr.app import Array, ArrayRecord

from task.protocol.packed import DATA

SIZE, COPIES = 100_000, 200_000


def growing() -> ArrayRecord:
    """Return a record of 100 kB that names its one chunk 200,000 times: 20 GB once it is built."""
    record = ArrayRecord({DATA: Array("uint8", (SIZE,), "bytes", bytes(SIZE))})
    record[DATA].__dict__["_chunks"] = record[DATA].slice_array() * COPIES
    return record
