"""Which published numbers stand beside a run."""

from server_app.config.composition import compose_experiment
from server_app.config.tables import Cell, Table
from univarfl.records.published import published_numbers


def test_a_cells_setting_replaces_that_of_its_table() -> None:
    cells = [Cell(at={"rounds": 7}, mean=70.0), Cell(at={}, mean=50.0)]
    table = Table(name="Table 1", at={"rounds": 5, "seed": 3}, cells=cells)
    for rounds, mean in ((5, 50.0), (7, 70.0)):
        config = compose_experiment([f"rounds={rounds}", "seed=3"]).model_dump()
        ((name, cell),) = published_numbers(config, [table])
        assert (name, cell.mean) == ("Table 1", mean)
