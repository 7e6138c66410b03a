"""A network at a fraction of its width: the same weights, cut to their first channels.

Yu et al., "Slimmable Neural Networks", ICLR 2019, without networks of its own: the cut weights are
views of the full ones, so gradients reach them, and go through `torch.func.functional_call`.
"""

from collections.abc import Collection

from torch import Tensor, nn

from task.models.layers.norm import GROUPS


def narrow(
    module: nn.Module,
    width: float,
    whole_inputs: Collection[str] = (),
    whole_outputs: Collection[str] = (),
) -> dict[str, Tensor]:
    """A module's state for `functional_call`, each layer cut to a share of its channels.

    Batch-norm statistics are copies, so that a narrow pass leaves the module's own alone; in
    training it normalises by its batch.

    Args:
        module: with weights of shape [outputs, inputs, ...].
        width: the share of channels kept, in (0, 1]; rounded down, one at least.
        whole_inputs: parameters that keep every input, by name: what they read is not cut.
        whole_outputs: parameters that keep every output.
    """
    grouped = any(isinstance(part, nn.GroupNorm) for part in module.modules())
    step = GROUPS if grouped else 1
    state: dict[str, Tensor] = {}
    for name, whole in module.named_parameters():
        cut = whole[:] if name in whole_outputs else whole[: kept(len(whole), width, step)]
        if cut.dim() > 1 and name not in whole_inputs:
            cut = cut[:, : kept(cut.shape[1], width, step)]
        state[name] = cut
    for name, value in module.named_buffers():
        state[name] = (value[: kept(len(value), width, step)] if value.dim() else value).clone()
    return state


def kept(channels: int, width: float, step: int) -> int:
    """How many of the channels a width keeps: a multiple of `step`, at least one."""
    return max(step, int(channels * width / step + 1e-9) * step)
