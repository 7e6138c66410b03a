"""The picture of a run's curves: drawn, or a warning."""

from pathlib import Path

from server_app.tracking.console import curves_line
from server_app.tracking.curves import draw_curves
from tests.server_app.runs.recorded import record


def test_a_picture_that_cannot_be_drawn_is_a_warning(tmp_path: Path) -> None:
    run = record(tmp_path, "run", [], [0.1, 0.5, 0.6])
    draw_curves(run)
    assert curves_line(run) == [f"curves  {run / 'curves.png'}"]
    (run / "curves.png").unlink()
    (run / "rounds.csv").write_text("nothing")
    draw_curves(run)
    assert curves_line(run) == []
