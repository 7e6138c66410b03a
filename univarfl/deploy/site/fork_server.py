"""A process that is warm with PyTorch and this site's data, and forks a child for each message.

Called as ``python -m univarfl.deploy.site.fork_server NUMBER`` with the file number of a socket to
the worker. It reads no message itself. It has one thread and does not initialise CUDA, because a
forked process can use neither its parent's other threads nor its CUDA.
"""

import contextlib
import ctypes
import faulthandler
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import NoReturn

import torch

from client_app.kinds import HANDLERS
from client_app.node import site_of
from client_app.session import worker_for
from task.fingerprint import fingerprint
from task.registry import named
from task.rules import read_local_config
from task.training.worker import shared_worker
from univarfl.deploy.site import frames
from univarfl.deploy.site.answering import answer

PR_SET_PDEATHSIG = 1
THREADS = Path("/proc/self/task")
OOM_SCORE = Path("/proc/self/oom_score_adj")
FIRST_TO_GO = "1000"
NVML_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"  # asks for GPUs without initialising CUDA

# Imported late by `client_app` and `task`. A site imports all of it before its files can change.
FURTHER = (
    "client_app.after.noisy_sums:with_noise",
    "client_app.budget:charge_round",
    "client_app.rounded_update:rounded_result",
    "client_app.given_weights:keep_weights",
    "task.approval.approvals:Approvals",
    "task.combination:combine",
    "task.data.combinations:labels_of",
    "task.data.image_store.building:built_dataset",
    "task.data.site_data:federate_site",
    "task.data.sources.families.dicom:open_dicom",
    "task.data.sources.families.multilabel_table:MultilabelTable",
    "task.data.splits.stored:stored_partition",
    "task.methods.feduv:classifier_deviation",
    "task.models.layers.position:Position",
    "task.optim.adamw:LocalAdamW",
    "task.optim.sgd:LocalSgd",
    "task.optim.update_norm:clip_result",
    "task.privacy.separable:problems",
    "task.privacy.whole_clients:problems",
    "task.secure.rules.masked_experiment:problems",
    "task.secure.vectors.rounded_sum:RoundedSum",
    "task.training.features:FrozenFeatures",
    "task.training.graphed:GraphedSteps",
    "task.training.multilabel.rules:problems",
    "task.training.multilabel.scores:entropy",
    "task.training.starting_weights:start_from_cache",
)


def main() -> None:
    """Serve the worker at the other end of the socket until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker decides when this process ends
    control = socket.socket(fileno=int(sys.argv[1]))
    warm_up()
    control.sendall(frames.pack(frames.READY))
    serve(control)


def warm_up() -> None:
    """Import what any message needs, and hash the code before its files can change."""
    for place in (*(handler.work for handler in HANDLERS.values()), *FURTHER):
        named(place)
    torch.set_num_threads(1)
    fingerprint()
    settle()


def settle() -> None:
    """Leave what is in memory out of garbage collection, so that children share its pages."""
    gc.collect()
    gc.freeze()


def serve(control: socket.socket) -> None:
    """Carry out the worker's commands, one after another."""
    inbox = frames.Inbox()
    channels: list[int] = []
    while True:
        while (command := inbox.take()) is None:
            part, numbers, _, _ = socket.recv_fds(control, frames.PART, 1)
            channels += numbers
            if not part:
                return
            inbox.add(part)
        if command.kind == frames.FORK:
            fork(control, socket.socket(fileno=channels.pop()))
        else:
            load(command.data)
            control.sendall(frames.pack(frames.READY))


def fork(control: socket.socket, channel: socket.socket) -> None:
    """Fork a child that answers the message on a channel, and report its number and its end."""
    require_one_thread()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        control.close()
        work(channel)
    channel.close()
    control.sendall(frames.pack(frames.CHILD, str(child).encode()))
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    end_group(child)
    _, status = os.waitpid(child, 0)
    control.sendall(frames.pack(frames.ENDED, str(status).encode()))


def end_group(child: int) -> None:
    """End what a child has started. It has ended, and its number is not free yet."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it had not made its group yet
        os.killpg(child, signal.SIGKILL)


def work(channel: socket.socket) -> NoReturn:
    """Answer one message, and end this process."""
    code = 1
    try:
        prepare_child()
        answer(channel)
        code = 0
    except BaseException:
        logging.getLogger("univarfl.client").exception("a message could not be answered")
    finally:
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)


def prepare_child() -> None:
    """Make this process end with its parent, and ahead of others when memory is short."""
    os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        OOM_SCORE.write_text(FIRST_TO_GO)
    os.environ.pop(NVML_CHECK, None)
    faulthandler.enable()


def load(wish: bytes) -> None:
    """Load an experiment's data and model, which later children then have at once.

    What was loaded before is dropped; a wish without fields does only this.
    """
    gc.unfreeze()
    shared_worker.cache_clear()
    settle()
    fields = json.loads(wish)
    if not fields:
        return
    experiment, node_config = fields["experiment"], fields["node_config"]
    site = site_of(node_config, read_local_config(experiment).partitioner().sites)
    if site is not None:
        worker_for(experiment, site)
    if torch.cuda.is_initialized():
        raise RuntimeError("loading an experiment has initialised CUDA")
    settle()


def require_one_thread() -> None:
    """Refuse to fork beside other threads, whose locks a child would never see released.

    Raises:
        RuntimeError: this process has more than one.
    """
    count = len(list(THREADS.iterdir())) if THREADS.is_dir() else threading.active_count()
    if count != 1:
        raise RuntimeError(f"the fork server has {count} threads")


if __name__ == "__main__":
    main()
