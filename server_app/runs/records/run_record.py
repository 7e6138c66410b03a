"""The content of a ``run.json``: the one type that a run writes and that every reader gets.

It imports pydantic, which takes 0.15 s: `record` has what the commands need that start at once.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, ValidationError

from server_app.runs.records.older import ALL_IMAGES, migrated
from server_app.runs.records.parts import (
    Count,
    Data,
    Engine,
    Forgotten,
    Names,
    Part,
    Privacy,
    Results,
    Scores,
    Seconds,
    Settings,
    Size,
    Spread,
    Stage,
    Statistics,
    Stopped,
    Texts,
    Worker,
)
from server_app.runs.records.record import FORMAT, READABLE, RUN_JSON
from server_app.runs.records.tables import RecordError
from task.errors import system_reason
from task.machine.files import write_whole
from task.machine.regular import LARGEST_RECORD, read_bounded
from task.plain_text import one_line
from task.registry import first_error

HASH = "sha256"  # the entry with a hash of all others
OBJECT = "must be a JSON object"
WORDS = {"missing": "it is missing", "model_type": OBJECT, "dict_type": OBJECT}


class UnknownFormatError(RecordError):
    """A ``run.json`` has a format that this version does not read, or none."""


class RunRecord(Part):
    """The content of a ``run.json``. A run that goes on, or has failed, lacks the later entries.

    Attributes:
        format: the version of the record's form. Older ones are migrated when they are read.
        config: every setting, nested as in ``conf/config.yaml``.
        code: a hash of the code that made the run; in format 1, of the clients' code alone.
        components: hashes of the components that the run chose, by module; empty in old records.
        data_version: a hash of the run's images; None in records made before it was recorded.
        stage_data_version: of those that only the stage after training reads.
        personal: the layers that stay with each client.
        stopped: why the run ended before its last round; None if it did not.
        request_bytes, reply_bytes: the sizes of a participant's messages.
    """

    model_config = ConfigDict(extra="ignore")

    format: int
    status: Literal["completed", "failed", "running"]
    reason: str = ""
    run_id: str
    key: str = ""
    config: Settings
    fingerprint: str
    code: str
    components: Texts = Field(default_factory=dict)
    data_version: str | None = None
    stage_data_version: str | None = None
    versions: Texts = Field(default_factory=dict)
    machine: Part | None = None
    started: str
    ended: str | None = None
    restartable: bool = False
    resumed: Names = Field(default_factory=list)
    resumed_from: Count | None = None
    engine: Engine | None = None
    overrides: Names | None = None
    workers: Annotated[list[Worker], Field(fail_fast=True)] = Field(default_factory=list)
    data: Data | None = None
    personal: Names = Field(default_factory=list)
    request_bytes: Size | None = None
    reply_bytes: Size | None = None
    secure: Part | None = None
    privacy: Privacy | None = None
    model_sha256: str = ""
    client_scores: Spread | None = None
    client_parts: Count = 0
    seconds: Seconds = Seconds()
    results: Results = Results()
    stopped: Stopped | None = None
    statistics: Statistics = Statistics()
    after: Stage | None = None
    forgotten: Forgotten | None = None
    sha256: str | None = None

    _written: Mapping[str, Any] = PrivateAttr()

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> Self:
        """Return the record with these entries, checked; `entries` gives them back unchanged.

        Raises:
            RecordError: an entry is missing, or has a wrong type or value.
        """
        version = entries.get("format")
        if type(version) is not int or version not in READABLE:
            known = " and ".join(map(str, READABLE))
            shown = one_line(f"format {version!r}") if version is not None else "no format"
            raise UnknownFormatError(f"{RUN_JSON} has {shown}; this version reads {known}")
        try:
            record = cls.model_validate(migrated(entries))
        except ValidationError as error:
            raise RecordError(problem_of(error)) from None
        record._written = entries
        return record

    def entries(self) -> dict[str, Any]:
        """Return the entries as they were written, in their order, with unknown ones."""
        return dict(self._written)

    def changed(self, **entries: Any) -> Self:
        """Return the record with some entries added, or replaced."""
        return self.of({**self._written, **entries})

    def without(self, entry: str) -> Self:
        """Return the record without an entry."""
        return self.of({name: value for name, value in self._written.items() if name != entry})

    @property
    def completed(self) -> bool:
        """Whether the run has a result."""
        return self.status == "completed"

    @property
    def last_round(self) -> int:
        """The number of the last round: that of all rounds, unless the run ended early."""
        return self.stopped.round if self.stopped else int(self.config["rounds"])

    @property
    def current(self) -> bool:
        """Whether it has the form that this version writes."""
        return self.format == FORMAT

    @property
    def exact_scores(self) -> Scores:
        """The test scores with statistics of all images; empty if they were not measured."""
        return self.statistics.readings.get(ALL_IMAGES, {})

    @property
    def statistics_setting(self) -> str:
        """The setting ``model.statistics``; a network without batch norm has none."""
        return str(self.config.get("model", {}).get("statistics", "averaged"))


def write_record(directory: Path, record: RunRecord) -> None:
    """Replace ``run.json`` atomically.

    Raises:
        OSError: it cannot be written; nothing has changed.
    """
    entries = record.entries()
    whole = {**entries, HASH: hash_of_entries(entries)}
    write_whole(directory / RUN_JSON, f"{json.dumps(whole, indent=2)}\n".encode())


def read_record(directory: Path, *, unchanged: bool = False) -> RunRecord:
    """Return the record of a run, checked.

    Args:
        directory: the run directory.
        unchanged: whether it must be as it was written; older versions wrote no hash into it.

    Raises:
        RecordError: ``run.json`` is missing, too large, not JSON, or not a run's record.
    """
    entries = read_entries(directory)
    if unchanged and entries.get(HASH, found := hash_of_entries(entries)) != found:
        raise RecordError(f"{RUN_JSON} is damaged: its hash is not that of its entries")
    return RunRecord.of(entries)


def read_entries(directory: Path) -> dict[str, Any]:
    """Return the entries of a ``run.json``; `RunRecord.of` checks them.

    Raises:
        RecordError: it is missing, too large, or not a JSON object.
    """
    try:
        text = read_bounded(directory / RUN_JSON, LARGEST_RECORD)
        entries = json.loads(text)
        if "\\u" in text:  # such an escape can be half of a character
            json.dumps(entries, ensure_ascii=False).encode()
    except OSError as error:
        raise RecordError(f"{RUN_JSON}: {system_reason(error)}") from None
    except json.JSONDecodeError as error:
        place = f"in line {error.lineno} ({error.msg})"
        raise RecordError(f"{RUN_JSON} is cut short, or not JSON, {place}") from None
    except UnicodeEncodeError:
        raise RecordError(f"{RUN_JSON} has text that is not Unicode") from None
    except (ValueError, RecursionError):
        raise RecordError(f"{RUN_JSON} is cut short, or not JSON") from None
    if not isinstance(entries, dict):
        raise RecordError(f"{RUN_JSON} is not a JSON object")
    return entries


def hash_of_entries(entries: Mapping[str, Any]) -> str:
    """Return a hash of the entries of a ``run.json`` but `HASH`."""
    text = json.dumps({name: value for name, value in entries.items() if name != HASH})
    return hashlib.sha256(text.encode()).hexdigest()


def problem_of(error: ValidationError) -> str:
    """Return the first problem of a record on one line, with the place of its entry."""
    found = first_error(error)
    words = WORDS.get(found.problem, found.allowed.removeprefix("Value error, "))
    return one_line(f"{RUN_JSON}: {found.key}: {words}")
