"""Steps of training that are recorded once and replayed, ``runtime.graphed``.

On a GPU a recording is a CUDA graph: all kernels of the step, launched by one call, at the
addresses of the recording. So whatever a step reads is kept in place: the batch is copied into
tensors of the recording, and weights, momentum and sums of losses are changed in place. On a CPU
the recording calls the step again, with the same tensors.
"""

from collections.abc import Callable, Hashable
from contextlib import suppress

import torch
from torch import Tensor

from task.training.loop import Step

Replay = Callable[[], None]


class GraphedSteps:
    """Takes the steps of one client after another, recorded for each kind of step.

    The first step of a kind is taken as it is, so that momentum and the libraries' memory exist.
    The second is recorded and replayed, all others are replayed.
    """

    def __init__(self, device: torch.device) -> None:
        self._recorder = CudaRecorder() if device.type == "cuda" else Recorder()
        self._known: set[Hashable] = set()
        self._recorded: dict[Hashable, tuple[Tensor, Tensor, Replay]] = {}

    def begin(self) -> None:
        """Forget the recordings: the next client's tensors are at other addresses."""
        self._known.clear()
        self._recorded = {}

    def take(self, step: Step, kind: Hashable, positions: Tensor, changes: Tensor) -> None:
        """Take one step.

        Args:
            step: takes it; apart from its two arguments it depends on `kind` alone.
            kind: equal for steps that do the same.
            positions: of the batch's images in the data set, [n] int64.
            changes: the augmentation's draws, [n, k].
        """
        kind = kind, len(positions)
        if kind not in self._known:
            self._recorder.first(lambda: step(positions, changes))
            self._known.add(kind)
            return
        if kind not in self._recorded:
            fixed = positions.clone(), changes.clone()
            self._recorded[kind] = *fixed, self._recorder.record(lambda: step(*fixed))
        fixed_positions, fixed_changes, replay = self._recorded[kind]
        fixed_positions.copy_(positions)
        fixed_changes.copy_(changes)
        replay()


class Recorder:
    """Records a step by keeping it."""

    def first(self, step: Replay) -> None:
        """Take a step as it is."""
        step()

    def record(self, step: Replay) -> Replay:
        """Return what takes the step again; the step is not taken."""
        return step


class CudaRecorder(Recorder):
    """Records steps as CUDA graphs that share their memory: one is replayed after another."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()  # only a stream of its own can be recorded
        self._pool = torch.cuda.graph_pool_handle()
        self._latest: torch.cuda.CUDAGraph | None = None  # keeps the shared memory

    def first(self, step: Replay) -> None:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            step()
        torch.cuda.current_stream().wait_stream(self._stream)

    def record(self, step: Replay) -> Replay:
        graph = torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                step()
            except BaseException:
                with suppress(RuntimeError):  # the recording cannot be used
                    graph.capture_end()
                raise
            graph.capture_end()
        self._latest = graph
        replay: Replay = graph.replay
        return replay
