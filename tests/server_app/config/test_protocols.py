"""The protocols of the papers and of their releases."""

import pytest

from server_app.config.composition import compose_experiment
from univarfl.records.published import published_numbers


def test_without_a_word_the_papers_protocol_is_followed() -> None:
    run = compose_experiment(["experiment=pacs", "method=feduv"])
    assert (run.optim.schedule, run.last_batch) == ("constant", "merge")
    assert run.method["sigma"] == "paper"


@pytest.mark.parametrize(("method", "own"), [("feduv", {"sigma": "release"}), ("fedavg", {})])
def test_feduvs_release_is_one_word(method: str, own: dict[str, str]) -> None:
    run = compose_experiment(["experiment=pacs", f"method={method}", "protocol=feduv"])
    assert (run.optim.schedule, run.last_batch) == ("cosine", "drop")
    assert run.data["validation_share"] == 0
    assert own.items() <= run.method.items()


def test_fedaligns_release_is_one_word() -> None:
    words = ["experiment=fedalign_cifar10", "method=fedalign", "protocol=fedalign"]
    run = compose_experiment(words)
    assert (run.optim.keep_momentum, run.last_batch) == (True, "drop")
    assert (run.optim.weight_decay, run.optim.nesterov) == (1e-4, True)
    assert (run.model["projector"], run.data["validation_share"]) == ("none", 0)
    assert run.method["subblock"] == "release"


def test_fedaligns_imagenet200_is_its_programs() -> None:
    run = compose_experiment(["experiment=fedalign_imagenet200", "method=fedalign"])
    data, model = run.data, run.model
    assert (data["image_size"], data["resize"], data["subset"]) == (224, "crop", "release")
    assert (model["name"], model["layout"]) == ("resnet18", "imagenet")
    assert run.augmentation["name"] == "resized_crop"


def test_a_setting_of_its_own_takes_precedence_over_the_protocol() -> None:
    words = ["protocol=feduv", "method=feduv", "method.sigma=paper", "last_batch=merge"]
    run = compose_experiment(words)
    assert (run.method["sigma"], run.last_batch, run.optim.schedule) == (
        "paper", "merge", "cosine",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("experiment", "method", "protocol", "skew"),
    [
        ("stl10", "univarfl", "feduv", ["alpha=0.01"]),
        ("stl10", "feduv", "feduv", ["alpha=0.01"]),
        ("pacs", "feduv", "feduv", []),
        ("fedalign_cifar100", "fedalign", "fedalign", ["alpha=0.5"]),
    ],
)
def test_published_numbers_stand_beside_either_protocol_and_nothing_else(
    experiment: str, method: str, protocol: str, skew: list[str]
) -> None:
    words = [f"experiment={experiment}", f"method={method}", *skew]
    runs = [compose_experiment(words), compose_experiment([*words, f"protocol={protocol}"])]
    paper, release = (published_numbers(run.model_dump(), run.published) for run in runs)
    assert paper
    assert paper == release
    other = compose_experiment([*words, "optim.lr=0.02"])
    assert not published_numbers(other.model_dump(), other.published)
