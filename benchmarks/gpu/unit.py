"""Settings of a call, and the units of work that it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from server_app.config.override_text import quoted

Result = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What a call measures.

    Attributes:
        output: folder of all records; this call's are in `folder`.
        device: what is measured.
        quick: tiny sizes, to try the logic.
        pacs: folder of PACS, or None.
    """

    output: Path
    device: Literal["cpu", "cuda"]
    quick: bool
    pacs: Path | None

    @property
    def folder(self) -> Path:
        """The folder for records of this device and size."""
        return self.output / (f"{self.device}-quick" if self.quick else self.device)

    def pacs_words(self) -> list[str]:
        """Return the overrides that select PACS, small if the call is quick."""
        small = ["data.image_size=32", "batch_size=8"] if self.quick else []
        return ["experiment=pacs", f"data.root={quoted(str(self.pacs))}", *small]

    def run_words(self, place: Path) -> list[str]:
        """Return the overrides of every run: in this process, on the device, kept in `place`."""
        return [
            "engine=inprocess", f"device={self.device}", "watch.tensorboard=false",
            f"output_dir={quoted(str(place))}",
        ]  # fmt: skip


@dataclass(frozen=True)
class Unit:
    """One measurement with one record.

    Attributes:
        part: the part that it belongs to.
        name: unique in all parts; names the record's file.
        measure: does the work; must be picklable, and return what JSON can hold.
        needs_pacs: whether it is left out without PACS.
        resumable: whether it continues where it was stopped, so that it may take several calls.
    """

    part: str
    name: str
    measure: Callable[[Settings], Result]
    needs_pacs: bool = False
    resumable: bool = False
