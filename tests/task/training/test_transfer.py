"""Weights on their way to a GPU and back, as far as a CPU can show it."""

import torch

from task.training.transfer import by_type, separated, to_cpu, to_device

VALUES = {
    "kernel": torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last),
    "count": torch.tensor(3),
    "empty": torch.zeros(0, 2),
    "bias": torch.randn(4),
    "transposed": torch.randn(3, 2).T,
    "counts": torch.arange(5),
}


def test_what_is_joined_can_be_separated() -> None:
    found: dict[str, torch.Tensor] = {}
    for kind, names in by_type(VALUES).items():
        block = torch.cat([VALUES[name].reshape(-1) for name in names])
        assert block.dtype == kind
        found |= separated(block, {name: VALUES[name] for name in names})
    assert found.keys() == VALUES.keys()
    assert all(torch.equal(found[name], value) for name, value in VALUES.items())


def test_on_a_cpu_nothing_is_copied_to_the_device_and_all_of_it_back() -> None:
    there = to_device(VALUES, torch.device("cpu"))
    assert all(there[name] is value for name, value in VALUES.items())
    back = to_cpu(there)
    assert list(back) == list(VALUES)
    for name, value in VALUES.items():
        assert torch.equal(back[name], value)
        assert back[name].is_contiguous()
        assert not value.numel() or back[name].data_ptr() != value.data_ptr()
