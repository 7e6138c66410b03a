"""``univarfl doctor``: what this machine has for training, and what is missing."""

import typer

DOCTOR_HELP = """Check this machine: versions, devices, memory, disk, Flower, Ray, ports.

\b
  univarfl doctor
\b
A line for each check. "ok": as it must be. "note": something optional is missing, or worth knowing.
"FAIL": training will not work; the line says what to do.
Exit codes: 0 no check failed, 1 a check failed.
"""


def doctor() -> None:
    """Check this machine."""
    from server_app.engines.doctor import FAIL, findings  # noqa: PLC0415

    failed = False
    for state, text in findings():
        print(f"{state:<4}  {text}", flush=True)
        failed = failed or state == FAIL
    if failed:
        raise typer.Exit(1)
