"""Run units one after another, each in a process of its own, until the time is used up."""

import os
import signal
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess

from benchmarks.gpu import records
from benchmarks.gpu.unit import Result, Settings, Unit
from univarfl.engines.local.processes import CONTEXT, warm_up

PRELOADED = ("benchmarks.gpu.parts",)
GRACE_SECONDS, LEAST_SECONDS = 20.0, 30.0


def waiting(units: Sequence[Unit], settings: Settings) -> list[Unit]:
    """Return the units still to be run: first those never tried, then those that failed."""
    found = records.read(settings.folder)
    usable = [unit for unit in units if settings.pacs or not unit.needs_pacs]
    left = [unit for unit in usable if "result" not in found.get(unit.name, {})]
    return sorted(left, key=lambda unit: unit.name in found)


def run_all(units: Sequence[Unit], settings: Settings, seconds: float) -> list[Unit]:
    """Run what is waiting for at most `seconds`, and return the units that are left."""
    end = time.monotonic() + seconds
    warm_up(*PRELOADED)
    for number, unit in enumerate(waiting(units, settings)):
        remaining = end - time.monotonic()
        if number and remaining < LEAST_SECONDS:
            break
        print(f"{unit.name} ...", flush=True)
        done = run(unit, settings, remaining)
        if "stopped" in done and (unit.resumable or number):
            print("  stopped: the time of this call is used up", flush=True)
            break
        records.write(settings.folder, done)
        print(f"  {summary(done)} ({done['seconds']:.0f} s)", flush=True)
    return waiting(units, settings)


def summary(done: records.Record) -> str:
    """Return one line on how a unit ended."""
    if "stopped" in done:
        return f"stopped after {done['stopped']:.0f} s: too long for one call"
    return str(done.get("error", "done")).strip().split("\n")[-1]


def run(unit: Unit, settings: Settings, seconds: float) -> records.Record:
    """Run one unit in a new process, and return its record.

    A record has a "result", an "error" or, if the unit took longer than `seconds`, "stopped". The
    unit is stopped as by Ctrl-C, so that it can close what it opened.
    """
    started = time.monotonic()
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_measure, args=(unit, settings, sender))
    process.start()
    sender.close()
    try:
        in_time = receiver.poll(seconds)
        outcome = receiver.recv() if in_time else {"stopped": seconds}
    except EOFError:
        process.join()
        outcome = {"error": f"its process ended with code {process.exitcode}"}
    finally:
        _stop(process)
    return {
        "part": unit.part,
        "name": unit.name,
        "ended": datetime.now(tz=UTC).isoformat(timespec="milliseconds"),
        "seconds": round(time.monotonic() - started, 1),
        "device": settings.device,
        "quick": settings.quick,
        **outcome,
    }


def _stop(process: ForkServerProcess) -> None:
    """Wait until a unit's process has ended, and end it if it does not end by itself."""
    process.join(1.0)
    for stop in (process.terminate, process.kill):
        if process.is_alive():
            stop()
            process.join(GRACE_SECONDS)


def _measure(unit: Unit, settings: Settings, sender: Connection) -> None:
    """Measure in this process, and send the outcome."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stop as Ctrl-C does: cleanly
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    outcome: Result
    with suppress(KeyboardInterrupt):
        try:
            outcome = {"result": unit.measure(settings)}
        except Exception:
            outcome = {"error": traceback.format_exc()}
        sender.send(outcome)
