"""The part of the model that each client keeps: it is saved in a simulation, and used."""

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from server_app import app
from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.rounds.ending import client_parts
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError
from tests.conftest import CNN, SMALL, SMALL_RESNET, Train, lose_state, model_for, rows, sha256
from tests.server_app.rounds.ending.saved import predicted, scored_again
from univarfl import load_run
from univarfl.cli.main import main
from univarfl.engines.train import train_experiment
from univarfl.inference.card import card_of
from univarfl.inference.model import trained_model
from univarfl.records.scores import read_client_scores
from univarfl.records.trained import saved_clients

SHARE = "data.validation_share=0.3"
WORDS = ("method=fedbn", SHARE, "rho=0.5", *CNN)


def parts_in(directory: Path) -> dict[str, bytes]:
    """Return the saved files by name."""
    return {path.name: path.read_bytes() for path in sorted((directory / "clients").iterdir())}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run in which some clients have never trained."""
    words = [*SMALL, *WORDS, f"output_dir={tmp_path_factory.mktemp('parts')}"]
    return train_experiment(compose_experiment(words), words)


@pytest.mark.parametrize(
    "method", ["fedbn", "fedbn method.statistics=measured", "fedper", "fedrep", "fedbn+fedper+moon"]
)
def test_a_saved_model_has_the_score_of_its_client(method: str, train: Train) -> None:
    name = method.split(maxsplit=1)[0]
    directory = train(f"method={name}", *method.split()[1:], *model_for(name), SHARE, "rho=0.75")
    scores = read_client_scores(directory)
    assert scored_again(directory) == scores
    for score in scores:
        assert predicted(directory, score.client) == score.accuracy
    assert read_entries(directory)["client_parts"] == len(scores)


def test_who_has_trained_has_a_file_with_its_part_alone(run: Path) -> None:
    trained = {int(row["client"]) for row in rows(run, "clients.csv")}
    assert set(saved_clients(run)) == trained
    assert len(trained) < 4
    for client in trained:
        part = load_file(run / "clients" / f"{client}.safetensors")
        assert part.keys() == set(read_entries(run)["personal"])


def test_the_bits_do_not_depend_on_workers_or_blocks(run: Path, train: Train) -> None:
    one = train(*WORDS, "federation.workers=3", "federation.message_megabytes=1e-6")
    assert sha256(one) == sha256(run)
    assert parts_in(one) == parts_in(run)


def test_no_file_is_written_if_clients_keep_nothing(train: Train) -> None:
    directory = train("method=fedavg")
    assert not (directory / "clients").exists()
    assert "client_parts" not in read_entries(directory)


def test_a_lost_part_costs_its_client_alone(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_state(monkeypatch)
    directory = train("method=fedper", SHARE, "rounds=1")
    assert saved_clients(directory) == [0, 2, 3]
    events = [row["event"] for row in rows(directory, "events.csv")]
    assert "client 1: its part of the model is not saved: the disk is gone" in events


def test_a_part_of_many_tensors_is_saved(train: Train) -> None:
    directory = train("method=fedbn", *SMALL_RESNET, SHARE, "rounds=1", "num_clients=2")
    assert len(read_entries(directory)["personal"]) > 200
    assert saved_clients(directory) == [0, 1]


@pytest.mark.parametrize("moment", ["draw_curves", "closing_lines"])
def test_a_run_that_ends_before_it_is_completed_is_resumed_to_the_same_files(
    run: Path, train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(app, moment, interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(*WORDS, "run_id=ended")
    directory = train(*whole_words([f"resume={tmp_path / 'runs' / 'ended'}"]))
    assert sha256(directory) == sha256(run)
    assert parts_in(directory) == parts_in(run)


def test_a_run_that_ends_before_they_are_written_is_resumed_to_the_same_files(
    run: Path, train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client_parts, "save_client_parts", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(*WORDS, "run_id=ended")
    directory = train(*whole_words([f"resume={tmp_path / 'runs' / 'ended'}"]))
    assert read_entries(directory)["resumed_from"] == 2
    assert parts_in(directory) == parts_in(run)


def test_predict_uses_the_named_clients_model(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = saved_clients(run)[0]
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 8), dtype=np.uint8)
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    table = tmp_path / "predictions.csv"
    words = ["predict", str(run), *map(str, sorted(tmp_path.glob("*.png"))), "--to", str(table)]
    monkeypatch.setattr(sys, "argv", ["univarfl", *words, "--client", str(client)])
    main()
    written = rows(tmp_path, "predictions.csv")
    expected = load_run(run).predict(pixels, device="cpu", client=client)
    assert [row["class"] for row in written] == list(expected["class"])
    model = load_run(run).model(client=client)
    one = model.network.state_dict()
    other = trained_model(run, "cpu", saved_clients(run)[1]).classifier.network.state_dict()
    own = set(read_entries(run)["personal"])
    assert {name for name in one if not one[name].equal(other[name])} <= own
    assert any(not one[name].equal(other[name]) for name in own)


def test_the_model_card_names_the_client_and_its_score(run: Path) -> None:
    score = read_client_scores(run)[0]
    card = card_of(trained_model(run, "cpu", score.client))
    assert card["client"] == score.client
    assert card["client_score"]["accuracy"] == score.accuracy


def test_what_cannot_be_used_says_what_can(run: Path, train: Train) -> None:
    first, *_ = saved = saved_clients(run)
    (absent, *_) = sorted(set(range(4)) - set(saved))
    reason = f"no whole model: each client of method=fedbn .* add --client {first}"
    with pytest.raises(ConfigError, match=reason):
        trained_model(run, "cpu")
    reason = f"client={absent}: .* has not trained; choose from {', '.join(map(str, saved))}"
    with pytest.raises(ConfigError, match=reason):
        trained_model(run, "cpu", absent)
    plain = train("method=fedavg", "rounds=1")
    with pytest.raises(ConfigError, match="client=0: leave it out: all clients of this run"):
        trained_model(plain, "cpu", 0)
    site = train(*WORDS, "rounds=1")
    shutil.rmtree(site / "clients")
    with pytest.raises(ConfigError, match="has saved no client's part"):
        trained_model(site, "cpu", 0)


@pytest.mark.parametrize("fault", ["cut", "changed", "of another model"])
def test_a_damaged_part_is_refused(fault: str, train: Train) -> None:
    directory = train(*WORDS)
    client = saved_clients(directory)[0]
    path = directory / "clients" / f"{client}.safetensors"
    if fault == "of another model":
        other = train(*WORDS, "seed=1")
        path.write_bytes(next(iter(parts_in(other).values())))
    else:
        whole = path.read_bytes()
        path.write_bytes(whole[:-8] if fault == "cut" else whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ConfigError, match=f"client={client}: "):
        trained_model(directory, "cpu", client)
