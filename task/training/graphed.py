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

from task.error_messages import is_gpu_shortage
from task.errors import TrainingError
from task.training.loop import Step

Replay = Callable[[], None]


class GraphedSteps:
    """Takes the steps of one client after another, recorded for each kind of step.

    The first step of a kind is not recorded, so that momentum and the libraries' memory exist. The
    second is recorded and replayed, all others are replayed.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._recorder = self._new_recorder()
        self._known: set[Hashable] = set()
        self._recorded: dict[Hashable, tuple[Tensor, Tensor, Replay]] = {}

    def begin(self) -> None:
        """Forget the recordings: the next client's tensors are at other addresses."""
        self._known.clear()
        self._recorded = {}

    def free(self) -> None:
        """Forget the recordings, and the memory that they share."""
        self.begin()
        self._recorder = self._new_recorder()

    def _new_recorder(self) -> "Recorder":
        return CudaRecorder() if self._on_gpu else Recorder()

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
        """Take a step without recording it."""
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
        """Return what takes the step again.

        Raises:
            TrainingError: the step cannot be recorded.
            RuntimeError: the GPU has too little memory for it.
        """
        make_room()
        graph = torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                step()
                graph.capture_end()
            except RuntimeError as error:
                with suppress(RuntimeError):  # the recording cannot be used
                    graph.capture_end()
                if is_gpu_shortage(error):
                    raise
                reason = str(error).strip().split("\n")[0]
                cure = "this step cannot be recorded; add runtime=eager"
                raise TrainingError(f"runtime.graphed: {cure} ({reason})") from error
        self._latest = graph
        replay: Replay = graph.replay
        return replay


def make_room() -> None:
    """Return cached memory to the GPU if a recording may need it: it has memory of its own."""
    free, _ = torch.cuda.mem_get_info()
    if free < torch.cuda.memory_reserved():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
