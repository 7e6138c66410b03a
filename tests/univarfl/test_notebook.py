"""The example notebook, executed."""

import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent.parent / "examples" / "notebook.ipynb"


@pytest.mark.slow
def test_the_example_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("JUPYTER_PATH", str(Path(sys.prefix) / "share" / "jupyter"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    assert all(not cell.get("outputs") for cell in notebook.cells), "clear its outputs"
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    shown = [output["data"] for output in outputs if "data" in output]
    bars = [data for data in shown if "<progress" in data.get("text/html", "")]
    assert len(bars) == 2
    assert all('value="3" max="3"' in bar["text/html"] for bar in bars)
    assert all("final accuracy: test" in bar["text/html"] for bar in bars)
    assert sum("image/png" in data for data in shown) == 1
