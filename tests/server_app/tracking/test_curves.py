"""The picture of a run's curves: drawn, or a warning."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from server_app.tracking.closing import curves_line
from server_app.tracking.curves import draw_curves, draw_into
from tests.server_app.runs.recorded import record


def test_a_picture_that_cannot_be_drawn_is_a_warning(tmp_path: Path) -> None:
    run = record(tmp_path, "run", [], [0.1, 0.5, 0.6])
    draw_curves(run)
    assert curves_line(run) == [f"curves  {run / 'curves.png'}"]
    (run / "curves.png").unlink()
    (run / "rounds.csv").write_text("nothing")
    draw_curves(run)
    assert curves_line(run) == []


def test_epsilon_is_no_loss(tmp_path: Path) -> None:
    run = record(tmp_path, "run", [], [0.1, 0.5, 0.6])
    with (run / "rounds.csv").open("a") as file:
        file.writelines(f"{at},train,epsilon,2.0\n" for at in (1, 2))
    figure = Figure()
    draw_into(figure, run)
    assert [line.get_label() for line in figure.axes[1].lines] == ["ce"]


def test_a_picture_that_fails_in_the_library_costs_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no such font")

    run = record(tmp_path, "run", [], [0.1, 0.5, 0.6])
    monkeypatch.setattr(Figure, "savefig", fail)
    draw_curves(run)
    assert curves_line(run) == []
