"""Sites with data of their own: whose data are trained on, and what a site tells."""

import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest
from flwr.app import Message, MessageType

import client_app.app
from client_app.node import site_of
from server_app.composition import compose_experiment
from server_app.engines.inprocess_grid import InProcessGrid
from server_app.exchange import Exchange, Run, request
from server_app.train import train_experiment
from server_app.weights import from_tensors, pack
from task import wire
from task.data.federated import federate_site
from task.errors import ConfigError, DataError, SiteError
from task.site import Site
from task.worker import Worker, shared_worker
from tests.task.data import making

EXPERIMENT = [
    "data=folder", "data.classes=[dog,cat,fox]", "data.image_size=32", "rounds=1", "local_epochs=1",
]  # fmt: skip
SITES = ["partition=sites", "partition.names=[south,north]"]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites' own folders, one without a fox, and both of them together as two domains."""
    root = tmp_path_factory.mktemp("sites")
    together = root / "together"
    making.tree(together, ["north/cat", "north/dog", "south/cat", "south/dog", "south/fox"], 12)
    for site in ("north", "south"):
        shutil.copytree(together / site, root / site, copy_function=shutil.copy2)
    return root


class TestOneSite:
    def test_labels_follow_the_experiment_and_not_the_folders(self, places: Path) -> None:
        config = compose_experiment([*EXPERIMENT, *SITES]).local()
        data = federate_site(config, Site(name="north", directory=str(places / "north")))
        assert data.dataset.classes == ("dog", "cat", "fox")
        assert data.dataset.labels.tolist() == [1] * 12 + [0] * 12
        assert list(data.clients) == [0]
        assert sum(map(len, data.clients[0])) == 24
        assert len(data.dataset.test) == 0

    def test_the_coordinators_root_is_not_looked_at(self, places: Path) -> None:
        config = compose_experiment([*EXPERIMENT, *SITES, "data.root=/etc"]).local()
        data = federate_site(config, Site(name="south", directory=str(places / "south")))
        assert len(data.dataset.images) == 36
        assert list(data.clients) == [1]

    def test_an_unknown_site_is_refused(self, places: Path) -> None:
        config = compose_experiment([*EXPERIMENT, *SITES]).local()
        with pytest.raises(SiteError, match=r"calls itself 'east', .* sites are north, south"):
            federate_site(config, Site(name="east", directory=str(places / "north")))

    def test_what_its_owner_does_not_allow_is_refused(self, places: Path) -> None:
        site = Site(name="north", directory=str(places / "north"), most_norm=1.0, most_epochs=2)
        for word, message in (
            ("local_epochs=3", "site north trains 2 local epochs a round at most"),
            (
                "method=scaffold",
                r"site north shortens .* \(its max-norm\), and method=scaffold has",
            ),
        ):
            config = compose_experiment([*EXPERIMENT, *SITES, word]).local()
            with pytest.raises(SiteError, match=message):
                federate_site(config, site)

    def test_an_empty_site_is_refused(self, tmp_path: Path) -> None:
        config = compose_experiment([*EXPERIMENT, *SITES]).local()
        with pytest.raises(ConfigError, match="holds no images"):
            federate_site(config, Site(name="north", directory=str(tmp_path)))
        making.save(tmp_path / "cat" / "1.png", 0)
        with pytest.raises(DataError, match="1 images are too few to train on"):
            federate_site(config, Site(name="north", directory=str(tmp_path)))


class TestWhoseData:
    def test_a_simulated_worker_reads_what_the_experiment_names(self) -> None:
        assert site_of({"partition-id": 0, wire.IN_PROCESS: True}, []) is None

    def test_a_sites_name_is_its_own_or_its_directorys(self) -> None:
        assert site_of({"site": "a", "data-dir": "/data/x"}, ["a"]) == Site(
            name="a", directory="/data/x"
        )
        assert site_of({"data-dir": "/data/x"}, ["x"]) == Site(name="x", directory="/data/x")
        assert site_of({"site": 1, "data-dir": "/data/x"}, ["1"]) == Site(
            name="1", directory="/data/x"
        )

    @pytest.mark.parametrize(
        ("node_config", "sites", "message"),
        [
            ({wire.IN_PROCESS: True}, ["a"], "names no data of its own: start it with --node-con"),
            ({}, [], "names no data of its own: start it with --node-config"),
            ({"partition-id": 0, "num-partitions": 2}, [], "names no data of its own"),
            (
                {"data-dir": "/data/x"},
                [],
                "x is a site with data of its own; run with partition=si",
            ),
            ({"partition-id": 0, "data-dir": "/data/x"}, [], "x is a site with data of its own"),
            ({"data-dir": "data/x"}, ["x"], "site x, data-dir: must be an absolute path"),
            ({"data-dir": "/x", "max-nrom": 1}, ["x"], "max-nrom: is no setting of a site; they "),
            ({"data-dir": "/x", "max-norm": 0}, ["x"], "max-norm: input should be greater than 0"),
            ({"data-dir": "/x", "device": "tpu"}, ["x"], "device: input should be 'auto', 'cpu'"),
        ],
    )
    def test_anything_else_is_refused(
        self, node_config: dict[str, object], sites: list[str], message: str
    ) -> None:
        with pytest.raises(SiteError, match=message):
            site_of(node_config, sites)


@pytest.fixture
def clinic(tmp_path: Path) -> tuple[Path, InProcessGrid, list[int]]:
    """One site, as a real SuperNode would be, with its data directory."""
    directory = making.tree(tmp_path / "Clinic_X", ["cat", "dog"], 10)
    grid = InProcessGrid(client_app.app.app, 1)
    (node,) = grid.get_node_ids()
    grid._contexts[node].node_config = {
        "site": "north", "data-dir": str(directory), "memory-dir": str(tmp_path / "memory"),
    }  # fmt: skip
    return directory, grid, [node]


class TestDiscretion:
    """What a site's own messages say when something is wrong with its files."""

    words: ClassVar = [*EXPERIMENT, "partition=sites", "partition.names=[north]"]

    def ask(
        self, clinic: tuple[Path, InProcessGrid, list[int]], kind: str, client: int = 0
    ) -> Message:
        _, grid, (node,) = clinic
        local = compose_experiment(self.words).local()
        run = Run("run", local.model_dump_json())
        worker = Worker(local)
        arrays = {wire.ARRAYS: pack(from_tensors(worker.initial_weights()))}
        shared_worker.cache_clear()  # a SuperNode starts a new process for each message
        message = request(kind, node, run, 1, [client], [0], arrays=arrays)
        (reply,) = Exchange(grid, [message], 60).replies()
        assert reply is not None
        return reply

    def introduced(self, clinic: tuple[Path, InProcessGrid, list[int]]) -> dict[str, object]:
        record = self.ask(clinic, MessageType.QUERY).content.config_records[wire.INTRODUCTION]
        return dict(record)

    def test_a_sound_site_tells_its_counts(
        self, clinic: tuple[Path, InProcessGrid, list[int]]
    ) -> None:
        found = self.introduced(clinic)
        assert (found["site"], found["seat"], found["seats"]) == ("north", 0, 1)
        assert (found["train"], found["validation"], found["error"]) == (18, 2, "")

    @pytest.mark.parametrize("kind", [MessageType.TRAIN, MessageType.EVALUATE, MessageType.QUERY])
    def test_no_name_of_its_files_leaves_it(
        self, clinic: tuple[Path, InProcessGrid, list[int]], kind: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        (clinic[0] / "Jane_Doe_1970").mkdir()
        reply = self.ask(clinic, kind)
        said = reply.error.reason if reply.has_error() else str(reply.content)
        assert said is not None
        assert "Jane" not in said
        assert str(clinic[0]) not in said
        assert "site north failed; its own log says why" in said
        assert "Jane_Doe_1970" in caplog.text

    def test_images_that_change_during_a_run_end_it(
        self, clinic: tuple[Path, InProcessGrid, list[int]]
    ) -> None:
        assert self.introduced(clinic)["error"] == ""
        assert not self.ask(clinic, MessageType.TRAIN).has_error()
        making.save(clinic[0] / "cat" / "new.png", 99)
        reply = self.ask(clinic, MessageType.TRAIN)
        assert reply.has_error()
        assert "its images have changed since the run began" in str(reply.error.reason)

    def test_a_client_that_is_not_the_sites_is_refused(
        self, clinic: tuple[Path, InProcessGrid, list[int]]
    ) -> None:
        reply = self.ask(clinic, MessageType.TRAIN, client=3)
        status = wire.rows(reply.content.config_records[wire.CLIENTS])[3]
        assert status["reason"] == "client 3 is not trained here"

    @pytest.mark.parametrize("client", ["0/../../secret", -1, 1.5])
    def test_a_client_is_a_number_and_never_a_path(
        self, clinic: tuple[Path, InProcessGrid, list[int]], client: Any
    ) -> None:
        reply = self.ask(clinic, MessageType.TRAIN, client=client)
        assert reply.has_error()
        assert "the request's clients must be a whole number" in str(reply.error.reason)


class TestComposition:
    def test_the_sites_are_the_clients(self) -> None:
        assert compose_experiment([*EXPERIMENT, *SITES]).num_clients == 2

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["data=digits"], "data=digits: a benchmark, which no site brings"),
            (["data.classes=null"], "data.classes=None: sites must agree on the classes"),
            (["partition.names=[]"], "partition.names=.*: must list the sites, each once"),
        ],
    )
    def test_what_sites_cannot_do_is_refused(self, words: list[str], message: str) -> None:
        start = SITES if words == ["data=digits"] else [*EXPERIMENT, *SITES]
        with pytest.raises(ConfigError, match=message):
            compose_experiment([*start, *words])

    def test_sites_are_not_simulated(self) -> None:
        words = [*EXPERIMENT, *SITES]
        with pytest.raises(ConfigError, match="partition=sites: sites are real machines; see"):
            train_experiment(compose_experiment(words), words)
