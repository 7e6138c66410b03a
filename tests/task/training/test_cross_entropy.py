"""Weights of classes and smoothed labels in the cross-entropy of local training."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from sklearn.utils.class_weight import compute_class_weight

from server_app.config.choices import choices
from server_app.config.composition import compose_experiment
from task.config import Loss
from task.errors import ConfigError
from task.registry import component_class
from task.training.after.finetuning import Finetuner, read_finetuning
from task.training.losses import balanced, cross_entropy
from task.training.worker import Worker
from tests.conftest import LENET, Train, model_for, sha256, with_slow
from tests.task.training.test_graphed import equal, trained

BOTH = ("train.class_weights=balanced", "train.label_smoothing=0.2")
REFUSED = ("fedalign", "fedetf", "fedlc", "fedrs", "fedvls")
FITTING = [name for name in choices()["method"] if name not in REFUSED]
WORDS = (*LENET, "num_clients=4", "local_epochs=1", "batch_size=512")


def test_classes_of_a_client_weigh_the_same_together() -> None:
    counts = torch.tensor([6, 0, 2, 1])
    labels = torch.arange(4).repeat_interleave(counts)
    theirs = compute_class_weight("balanced", classes=labels.unique().numpy(), y=labels.numpy())
    assert balanced(counts).tolist() == pytest.approx([0.5, 0, 1.5, 3])
    assert balanced(counts)[counts > 0].tolist() == pytest.approx(theirs)
    assert balanced(counts)[labels].mean().item() == pytest.approx(1)


@pytest.mark.parametrize("weights", ["none", "balanced"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_it_is_pytorchs(weights: str, smoothing: float) -> None:
    """Also for class probabilities, as Mixup has them."""
    counts = torch.tensor([6, 3, 1])
    ours = cross_entropy(Loss(class_weights=weights, label_smoothing=smoothing), counts)  # type: ignore[arg-type]
    weight = torch.tensor([10 / 18, 10 / 9, 10 / 3]) if weights == "balanced" else None
    theirs = torch.nn.CrossEntropyLoss(weight, label_smoothing=smoothing)
    logits = torch.randn(5, 3)
    for y in (torch.tensor([0, 1, 2, 0, 0]), torch.rand(5, 3).softmax(dim=1)):
        assert ours(logits, y).item() == pytest.approx(theirs(logits, y).item(), rel=1e-6)
    labels = torch.tensor([0, 1, 2, 0, 0])
    narrow = ours(logits.bfloat16(), labels)
    assert narrow.item() == pytest.approx(theirs(logits, labels).item(), rel=0.05)
    if weights == "none" and not smoothing:
        assert ours is F.cross_entropy


def test_values_by_hand() -> None:
    """Logits 0 and log 3: -log p is log 4 and log 4/3. Classes weigh 2/3 and 2."""
    logits = torch.tensor([[0.0, 1.0986123]]).expand(2, 2)
    loss = cross_entropy(Loss(class_weights="balanced", label_smoothing=0.0), torch.tensor([3, 1]))
    expected = (2 / 3 * 1.3862944 + 2 * 0.2876821) / (2 / 3 + 2)
    assert loss(logits, torch.tensor([0, 1])).item() == pytest.approx(expected, rel=1e-6)
    smooth = cross_entropy(Loss(class_weights="none", label_smoothing=0.2), torch.tensor([3, 1]))
    expected = 0.9 * 1.3862944 + 0.1 * 0.2876821
    assert smooth(logits[:1], torch.tensor([0])).item() == pytest.approx(expected, rel=1e-6)


def test_a_client_is_trained_with_the_weights_of_its_own_classes() -> None:
    """One batch of all images of a client; the loss is that of the weights that it starts from."""
    worker = Worker(compose_experiment([*WORDS, "method=fedavg", *BOTH, "alpha=0.1"]).local())
    start = worker.initial_weights()
    losses = []
    for client in (0, 1):
        reported = worker.train(start, 1, client).losses["ce"]
        worker.load(start)
        worker.model.train()
        x, y = worker.images[worker.images.index(worker.data.clients[client].train)]
        weight = torch.zeros(10)
        for c in y.unique():
            weight[c] = len(y) / (len(y.unique()) * (y == c).sum())
        loss = F.cross_entropy(worker.model(x).logits, y, weight, label_smoothing=0.2)
        assert reported == pytest.approx(loss.item(), rel=1e-5)
        losses.append(reported)
    assert losses[0] != pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize("method", with_slow(FITTING, {*FITTING} - {"mixup", "univarfl"}))
def test_a_method_trains_with_it(method: str) -> None:
    words = [*WORDS, f"method={method}", *model_for(method), *BOTH]
    worker = Worker(compose_experiment(words).local())
    plain = Worker(compose_experiment(words[: -len(BOTH)]).local())
    weights, broadcast = worker.initial_weights(), worker.broadcast()
    ours, theirs = (each.train(weights, 1, 0, broadcast=broadcast) for each in (worker, plain))
    assert ours.losses["ce"] != theirs.losses["ce"]
    assert all(value.isfinite().all() for value in ours.weights.values())


def test_the_refused_methods_change_logits_or_use_the_plain_cross_entropy() -> None:
    kinds = {name: component_class("method", name) for name in choices()["method"]}
    found = {name for name, kind in kinds.items() if kind.adjusts_logits or kind.uses_entropy}
    assert found == set(REFUSED)


@pytest.mark.parametrize("method", [*REFUSED, "fedlc+fedprox"])
@pytest.mark.parametrize("word", BOTH)
def test_it_is_refused_by_name(method: str, word: str) -> None:
    name = method.partition("+")[0]
    with pytest.raises(ConfigError, match=rf"{word}: method={name} .*; leave it out, or choose"):
        compose_experiment([f"method={method}", *model_for(method), word])


def test_weights_would_reveal_the_classes_that_noise_hides() -> None:
    words = ["privacy=example", "method=fedavg", "model=linear"]
    with pytest.raises(ConfigError, match="balanced: an image's weight depends on the classes"):
        compose_experiment([*words, BOTH[0]])
    compose_experiment([*words, BOTH[1]])


def test_recorded_steps_give_the_same_bits() -> None:
    words = [*LENET, "method=fedavg", "batch_size=16", "num_clients=8", "local_epochs=2", *BOTH]
    one, two = (
        compose_experiment([*words, runtime]).local()
        for runtime in ("runtime=eager", "runtime=graphed")
    )
    assert equal(trained(one), trained(two))


def test_any_number_of_workers_gives_the_same_bits(train: Train) -> None:
    assert sha256(train(*BOTH)) == sha256(train(*BOTH, "federation.workers=2"))


def test_fine_tuning_uses_the_plain_cross_entropy() -> None:
    worker = Worker(compose_experiment([*WORDS, "method=fedavg", *BOTH]).local())
    settings = {"name": "finetune", "epochs": 1, "batch_size": 16, "lr": 0.1, "momentum": 0.9}
    assert Finetuner(worker, read_finetuning(settings))._trainer.config.train.plain
