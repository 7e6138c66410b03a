"""Weights in files."""

from pathlib import Path

import numpy as np
import onnx  # noqa: F401  (it adds bfloat16 to NumPy)
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from server_app.aggregation.weights import as_bytes, from_file


def test_a_file_gives_back_its_arrays_and_its_metadata(tmp_path: Path) -> None:
    arrays = {"b": np.arange(6.0).reshape(2, 3), "a": np.array(7)}
    (path := tmp_path / "weights").write_bytes(as_bytes(arrays, {"of": "a test"}))
    found, metadata = from_file(path)
    assert metadata == {"of": "a test"}
    assert found.keys() == arrays.keys()
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float8_e4m3fn])
def test_numbers_that_numpy_does_not_have_are_a_damaged_file(
    tmp_path: Path, kind: torch.dtype
) -> None:
    save_file({"a": torch.ones(4).to(kind)}, path := tmp_path / "weights")
    with pytest.raises(SafetensorError):
        from_file(path)
