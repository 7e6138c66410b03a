"""A network at a fraction of its width: the same weights, cut to their first channels.

Source: Yu et al., "Slimmable Neural Networks", ICLR 2019. No second network is built: the cut
weights are views of the full ones, so gradients reach these, and `torch.func.functional_call` runs
the network with them.
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
    """Return a module's state for `functional_call`, each layer cut to a share of its channels.

    Batch-norm statistics are copied, so that a narrow pass does not change the module's own. In
    training mode the narrow pass normalises by its batch.

    Args:
        module: with weights of shape [outputs, inputs, ...].
        width: the share of channels to keep, in (0, 1]; rounded down to at least one channel.
        whole_inputs: names of parameters that keep every input, since their input is not cut.
        whole_outputs: names of parameters that keep every output.
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
    """Return the number of channels that a width keeps: a multiple of `step`, at least `step`."""
    return max(step, int(channels * width / step + 1e-9) * step)
