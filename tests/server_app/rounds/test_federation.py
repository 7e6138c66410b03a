"""Whole runs in this process: what is recorded, what repeats, and what failures do."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from server_app.config.composition import compose_experiment
from server_app.rounds.sampling import sample_clients
from server_app.runs.records.client_scores import CLIENT_SCORES, spread_over_clients
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError, RunError
from task.fingerprint import fingerprint
from task.training.device import choose_device
from tests.conftest import FEW_TO_TRAIN, SMALL_CNN, Train, faulty, only_run, rows, sha256, with_slow
from tests.task.data import making
from univarfl.engines.train import train_experiment
from univarfl.records.scores import read_client_scores

DEVICE = choose_device("auto").type


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("record")
    words = [*SMALL_CNN, f"output_dir={place}", "rounds=3", "rho=0.5", "evaluate_every=2"]
    return train_experiment(compose_experiment(words), words)


class TestRecord:
    def test_run_json_says_what_was_run_and_how_it_ended(self, run: Path) -> None:
        record = read_entries(run)
        assert record["status"] == "completed"
        assert record["run_id"] == run.name
        assert record["config"]["rounds"] == 3
        assert record["config"]["method"]["name"] == "univarfl"
        assert record["fingerprint"] == fingerprint()
        assert record["engine"]["name"] == "inprocess"
        assert record["workers"][0]["device"] == DEVICE
        assert {"python", "flwr", "torch", "ray"} <= record["versions"].keys()
        assert record["data"]["train"] + record["data"]["validation"] == FEW_TO_TRAIN
        assert sum(record["data"]["clients"]) == FEW_TO_TRAIN
        assert record["seconds"]["total"] > 0

    def test_rounds_csv_holds_each_metric_of_each_round_once(self, run: Path) -> None:
        found = rows(run, "rounds.csv")
        keys = [(row["round"], row["split"], row["metric"]) for row in found]
        assert len(keys) == len(set(keys))
        values = {key: float(row["value"]) for key, row in zip(keys, found, strict=True)}
        for server_round in "123":
            assert {"ce", "l_he", "l_v", "clients", "failed", "seconds"} == {
                metric for r, split, metric in keys if (r, split) == (server_round, "train")
            }
        accuracies = [v for (_, _, metric), v in values.items() if metric == "accuracy"]
        assert all(0 <= value <= 1 for value in accuracies)

    def test_the_test_set_is_scored_every_second_round_before_the_first_and_after_the_last(
        self, run: Path
    ) -> None:
        found = rows(run, "rounds.csv")
        scored = [r["round"] for r in found if (r["split"], r["metric"]) == ("test", "accuracy")]
        assert scored == ["0", "2", "3"]

    def test_participants_are_validated_in_those_rounds_and_everybody_at_the_end(
        self, run: Path
    ) -> None:
        found = {
            row["round"]: float(row["value"])
            for row in rows(run, "rounds.csv")
            if (row["split"], row["metric"]) == ("validation", "clients")
        }
        assert found == {"2": 2, "3": 4}

    def test_nobody_is_validated_if_no_images_are_held_out(self, train: Train) -> None:
        directory = train("data.validation_share=0", "rounds=1")
        record = read_entries(directory)
        assert (record["data"]["train"], record["data"]["validation"]) == (FEW_TO_TRAIN, 0)
        found = [row for row in rows(directory, "rounds.csv") if row["split"] == "validation"]
        assert [(row["metric"], float(row["value"])) for row in found] == [("clients", 0)]

    def test_every_client_is_scored_after_the_last_round(self, run: Path) -> None:
        found = read_client_scores(run)
        assert [score.client for score in found] == [0, 1, 2, 3]
        images = [score.images for score in found]
        pooled = read_entries(run)["results"]["validation"]
        assert np.average([score.accuracy for score in found], weights=images) == pytest.approx(
            pooled["accuracy"]
        )
        assert np.average([score.loss for score in found], weights=images) == pytest.approx(
            pooled["loss"]
        )
        assert read_entries(run)["client_scores"] == spread_over_clients(found)

    def test_scores_of_clients_are_not_kept_if_masks_hide_them(self, train: Train) -> None:
        directory = train("secure=masked", "rounds=1")
        assert not (directory / CLIENT_SCORES).exists()
        assert "client_scores" not in read_entries(directory)

    def test_images_to_measure_accuracy_on_are_needed(self, train: Train, tmp_path: Path) -> None:
        making.tree(tmp_path / "images", ["dog", "cat"], 10)
        words = ["data=folder", f"data.root={tmp_path / 'images'}", "data.test_share=0"]
        with pytest.raises(RunError, match=r"data.validation_share=0.0: leaves no images"):
            train(*words, "data.validation_share=0", "num_clients=2")

    def test_clients_csv_names_the_sampled_clients(self, run: Path) -> None:
        found = rows(run, "clients.csv")
        assert list(found[0]) == [
            "round", "client", "site", "status", "reason", "examples", "seconds", "device",
            "ce", "l_he", "l_v",
        ]  # fmt: skip
        for server_round in (1, 2, 3):
            trained = [int(r["client"]) for r in found if int(r["round"]) == server_round]
            assert trained == sample_clients(4, 0.5, 0, server_round)
        assert all(row["status"] == "ok" and row["device"] == DEVICE for row in found)
        assert all(int(row["examples"]) > 75 for row in found)

    def test_the_train_row_is_the_examples_weighted_mean_of_the_clients(self, run: Path) -> None:
        clients = [row for row in rows(run, "clients.csv") if row["round"] == "1"]
        weights = [float(row["examples"]) for row in clients]
        expected = np.average([float(row["ce"]) for row in clients], weights=weights)
        (ce,) = [
            float(row["value"])
            for row in rows(run, "rounds.csv")
            if (row["round"], row["metric"]) == ("1", "ce")
        ]
        assert ce == pytest.approx(expected)

    def test_the_model_and_the_curves_are_there(self, run: Path) -> None:
        weights = load_file(run / "model.safetensors")
        assert weights["classifier.weight"].shape == (10, 256)
        assert weights["encoder.1.num_batches_tracked"].dtype == np.int64
        assert (run / "curves.png").stat().st_size > 10_000
        assert "round 3/3" in (run / "run.log").read_text()


class TestRepeats:
    def test_the_same_seed_gives_the_same_bits_with_any_number_of_workers(
        self, train: Train
    ) -> None:
        one, again = train(), train()
        two, three = train("federation.workers=2"), train("federation.workers=3")
        assert sha256(one) == sha256(again) == sha256(two) == sha256(three)
        assert {row["site"] for row in rows(three, "clients.csv")} == {
            "supernode-0", "supernode-1", "supernode-2",
        }  # fmt: skip

    def test_so_does_a_strategy_that_looks_at_each_client_however_many_share_a_message(
        self, train: Train
    ) -> None:
        words = ["strategy=fedmedian", "rounds=2"]
        one = train(*words)
        two = train(*words, "federation.workers=2")
        apart = train(*words, "federation.workers=2", "federation.message_megabytes=1e-6")
        assert sha256(one) == sha256(two) == sha256(apart)

    def test_another_seed_gives_others(self, train: Train) -> None:
        assert sha256(train("rounds=1")) != sha256(train("rounds=1", "seed=1"))

    def test_weighting_matters_when_clients_differ_in_size(self, train: Train) -> None:
        skewed = ["partition=dirichlet", "rounds=1"]
        assert sha256(train(*skewed)) != sha256(train(*skewed, "strategy.weighting=uniform"))


class TestMemory:
    @pytest.mark.parametrize(
        "method",
        [
            "scaffold",
            "fedavg optim.keep_momentum=true",
            pytest.param("moon+feddyn", marks=pytest.mark.slow),
        ],
    )
    def test_it_follows_the_client_and_not_the_worker(self, train: Train, method: str) -> None:
        """Half of the clients a round, so that many come back after a pause, to another worker."""
        words = [
            *f"method={method}".split(),
            "rounds=4",
            "rho=0.5",
            "seed=1",
            "partition=dirichlet",
        ]
        one = train(*words)
        two = train(*words, "federation.workers=2")
        three = train(*words, "federation.workers=3")
        assert sha256(one) == sha256(two) == sha256(three)
        sites = {(r["client"], r["site"]) for r in rows(three, "clients.csv")}
        assert len(sites) > len({client for client, _ in sites})

    def test_a_completed_run_leaves_none_behind(self, train: Train, tmp_path: Path) -> None:
        train("method=moon", "rounds=1")
        train("method=fedavg", "optim.keep_momentum=true", "rounds=1")
        assert list((tmp_path / "memory").iterdir()) == []

    def test_each_term_of_a_method_has_its_column(self, train: Train) -> None:
        directory = train("method=moon+feduv", "rounds=1")
        (row, *_) = rows(directory, "clients.csv")
        assert list(row)[-5:] == ["ce", "l_he", "l_v", "l_u", "l_con"]
        assert float(row["l_con"]) == pytest.approx(np.log(2), rel=1e-5)
        assert row["l_he"] == ""


@pytest.mark.usefixtures("parts")
class TestFailures:
    @pytest.mark.parametrize("method", with_slow(["moon", "scaffold"], ["scaffold"]))
    def test_a_client_that_failed_goes_on_from_its_last_accepted_round(
        self, train: Train, method: str
    ) -> None:
        words = [*faulty([1], [2], "nan"), f"method.name=faulty+{method}", "rounds=3"]
        if method == "moon":
            words += ["+method.contrastive_weight=1", "+method.temperature=0.5"]
        directory = train(*words)
        found = {(r["round"], r["client"]): r for r in rows(directory, "clients.csv")}
        assert {key for key, row in found.items() if row["status"] == "failed"} == {("2", "1")}
        assert sha256(directory) == sha256(train(*words, "federation.workers=3"))

    def test_a_round_with_too_few_updates_for_the_strategy_changes_nothing(
        self, train: Train
    ) -> None:
        words = [*faulty([1], [2], "raise"), "strategy=krum", "num_clients=5"]
        directory = train(*words, "rounds=2")
        log = (directory / "run.log").read_text()
        assert (
            "round 2: strategy=krum needs 5 updates and got 4; the global model is unchanged" in log
        )
        assert sha256(directory) == sha256(train(*words, "rounds=1"))

    def test_when_there_are_never_enough_the_run_fails(self, train: Train) -> None:
        words = [*faulty([1], [1, 2, 3], "raise"), "strategy=krum", "num_clients=5", "rounds=3"]
        with pytest.raises(RunError, match=r"only 4 of 5 clients succeeded, 3 rounds in a row"):
            train(*words)

    @pytest.mark.parametrize(
        ("fault", "reason"),
        [
            ("raise", "RuntimeError: scanner offline"),
            (
                "nan",
                (
                    "training diverged: model encoder.0.weight is no longer finite; "
                    "lower optim.lr or set optim.max_gradient_norm"
                ),
            ),
        ],
    )
    def test_the_round_goes_on_without_the_client(
        self, train: Train, fault: str, reason: str
    ) -> None:
        directory = train(*faulty([1, 3], [1], fault))
        found = {(r["round"], r["client"]): r for r in rows(directory, "clients.csv")}
        assert {key for key, row in found.items() if row["status"] == "failed"} == {
            ("1", "1"), ("1", "3"),
        }  # fmt: skip
        assert found["1", "1"]["reason"] == reason
        assert found["2", "1"]["status"] == "ok"
        assert read_entries(directory)["status"] == "completed"
        assert all(
            np.isfinite(w).all() for w in load_file(directory / "model.safetensors").values()
        )

    def test_a_failed_clients_images_do_not_weigh(self, train: Train) -> None:
        """With every client but one failing, the global model is that client's, to 2^-44."""
        alone = train(*faulty([1, 2, 3], [1], "raise"), "rounds=1")
        uniform = train(*faulty([1, 2, 3], [1], "raise"), "rounds=1", "strategy.weighting=uniform")
        other = load_file(uniform / "model.safetensors")
        for name, value in load_file(alone / "model.safetensors").items():
            assert value == pytest.approx(other[name], rel=0, abs=2**-44)

    def test_a_client_without_data(self, train: Train) -> None:
        directory = train("partition.name=starved")
        found = [row for row in rows(directory, "clients.csv") if row["status"] == "failed"]
        assert [(row["round"], row["client"]) for row in found] == [("1", "0"), ("2", "0")]
        assert found[0]["reason"] == "0 training images; at least 2 are needed"
        assert read_entries(directory)["status"] == "completed"

    def test_when_every_client_fails_the_run_fails(self, train: Train, tmp_path: Path) -> None:
        with pytest.raises(RunError, match=r"no clients succeeded.*scanner offline"):
            train(*faulty([0, 1, 2, 3], [1, 2], "raise"))
        directory = only_run(tmp_path)
        record = read_entries(directory)
        assert record["status"] == "failed"
        assert "scanner offline" in record["reason"]
        assert not (directory / "model.safetensors").exists()
        assert len(rows(directory, "clients.csv")) == 4
        assert "Traceback" in (directory / "run.log").read_text()

    def test_an_empty_round_at_a_small_rho_is_survived(self, train: Train) -> None:
        (unlucky,) = sample_clients(4, 0.25, 0, 1)
        directory = train(*faulty([unlucky], [1], "raise"), "rho=0.25", "rounds=2")
        assert read_entries(directory)["status"] == "completed"
        first = {
            r["metric"]: r["value"] for r in rows(directory, "rounds.csv") if r["round"] == "1"
        }
        assert (first["clients"], first["failed"]) != ("1", "0")

    def test_three_empty_rounds_in_a_row_are_not(self, train: Train) -> None:
        everyone = list(range(20))
        words = [*faulty(everyone, list(range(1, 9)), "raise"), "rho=0.05", "rounds=8"]
        with pytest.raises(RunError, match=r"round 3: .*3 rounds in a row"):
            train(*words, "num_clients=20")

    def test_a_worker_that_is_late_is_left_out(self, train: Train) -> None:
        with pytest.raises(RunError, match="within 1e-09 s"):
            train("federation.join_timeout=1e-9")
        with pytest.raises(RunError, match="no answer before the round's timeout"):
            train("federation.round_timeout=1e-6")


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "line"),
        [
            (
                ["num_clients=1000"],
                "num_clients=1000: 362 training images are enough for at most 36",
            ),
            (["data.image_size=8"], "data.image_size=8: model lenet needs 16 pixels or more"),
        ],
    )
    def test_settings_that_do_not_fit_together_leave_nothing_behind(
        self, train: Train, tmp_path: Path, words: list[str], line: str
    ) -> None:
        with pytest.raises(ConfigError, match=line):
            train(*words)
        assert not (tmp_path / "runs").exists()

    def test_a_place_that_cannot_be_written(self, train: Train, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigError, match=r"output_dir=.*file: must be a directory"):
            train(f"output_dir={tmp_path / 'file'}")
        with pytest.raises(ConfigError, match="output_dir=/proc/runs: must be writable"):
            train("output_dir=/proc/runs")

    def test_a_run_is_never_overwritten(self, train: Train) -> None:
        before = (train("run_id=mine", "rounds=1") / "run.json").read_bytes()
        with pytest.raises(ConfigError, match=r"run_id=mine: .* has a run of this name"):
            train("run_id=mine", "rounds=1")
        directory = train("rounds=1")
        assert (directory.parent / "mine" / "run.json").read_bytes() == before

    @pytest.mark.parametrize(
        "name", ['it\'s a "place", = [1]', "${x}", "\\${x}\\'", "a\\b\\", "\\\\"]
    )
    def test_paths_may_hold_anything(
        self, train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / name))
        assert train("rounds=1").parent == tmp_path / name
