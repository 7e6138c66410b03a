"""The lines that a run prints."""

from server_app.tracking.console import round_line


def test_each_accuracy_of_a_round_has_its_own_name() -> None:
    scores = {
        "train": {"ce": 0.25, "clients": 3.0, "failed": 1.0, "seconds": 1.5},
        "validation": {"accuracy": 0.625, "loss": 9.0},
        "test": {"accuracy": 0.875, "loss": 8.0},
    }
    assert round_line(7, 10, scores, 4) == (
        "round  7/10  test 0.875  validation 0.625  ce 0.2500  clients 3/4  1.5 s"
    )
    scores["test"] = {}
    assert round_line(7, 10, scores, 4).startswith("round  7/10  validation 0.625  ce")
