"""Sites with data of their own: whose data are trained on, and what a site reports."""

import logging
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest

import client_app.app
from client_app.node import site_of
from server_app.config.composition import compose_experiment
from server_app.nodes.failure import Failure
from server_app.nodes.messages import AddressedRequest, Exchange
from task.data.site_data import federate_site
from task.errors import ConfigError, DataError, SiteError
from task.fingerprint import fingerprint
from task.privacy.settings import UNTOLD_IMAGES
from task.protocol.envelope import Kind
from task.protocol.evaluation import EVALUATE
from task.protocol.registration import REGISTER
from task.protocol.tensors import PackedTensors
from task.protocol.training import TRAIN, TrainRequest
from task.site import IN_PROCESS, Site
from task.training.worker import Worker
from tests.site_grid import SiteGrid
from tests.task.data import making
from univarfl.engines.train import train_experiment

EXPERIMENT = [
    "data=folder", "data.classes=[dog,cat,fox]", "data.image_size=32", "rounds=1", "local_epochs=1",
]  # fmt: skip
SITES = ["partition=sites", "partition.names=[south,north]"]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create images for two sites, one without a fox, and the same images as two domains."""
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

    def test_the_coordinators_data_root_is_ignored(self, places: Path) -> None:
        config = compose_experiment([*EXPERIMENT, *SITES, "data.root=/etc"]).local()
        data = federate_site(config, Site(name="south", directory=str(places / "south")))
        assert len(data.dataset.images) == 36
        assert list(data.clients) == [1]

    def test_an_unknown_site_is_refused(self, places: Path) -> None:
        config = compose_experiment([*EXPERIMENT, *SITES]).local()
        with pytest.raises(
            SiteError, match=r"'east' is not in partition.names, which lists north, south"
        ):
            federate_site(config, Site(name="east", directory=str(places / "north")))

    def test_settings_that_its_owner_forbids_are_refused(self, places: Path) -> None:
        site = Site(name="north", directory=str(places / "north"), max_norm=1.0, max_epochs=2)
        for word, message in (
            ("local_epochs=3", "site north trains at most 2 local epochs at a time"),
            ("update=int8", r"limits the norm of its updates \(its max-norm\), and rounding with"),
            (
                "method=scaffold",
                r"site north clips its updates \(its max-norm\), but clients of method=scaffold",
            ),
        ):
            config = compose_experiment([*EXPERIMENT, *SITES, word]).local()
            with pytest.raises(SiteError, match=message):
                federate_site(config, site)

    @pytest.mark.parametrize(
        "words", ["model.features=2000000", "method=fedetf method.frame_width=2000000"]
    )
    def test_a_model_that_is_too_large_is_refused_before_it_is_built(
        self, places: Path, words: str
    ) -> None:
        config = compose_experiment([*EXPERIMENT, *SITES, *words.split()]).local()
        site = Site(name="north", directory=str(places / "north"), max_model_megabytes=3)
        with pytest.raises(SiteError, match=r"trains models of at most 3 MB .* has [\d,]+ MB"):
            Worker(config, site)

    def test_an_empty_site_is_refused(self, tmp_path: Path) -> None:
        config = compose_experiment([*EXPERIMENT, *SITES]).local()
        with pytest.raises(ConfigError, match="contains no images"):
            federate_site(config, Site(name="north", directory=str(tmp_path)))
        making.save(tmp_path / "cat" / "1.png", 0)
        with pytest.raises(DataError, match="1 images are too few to train on"):
            federate_site(config, Site(name="north", directory=str(tmp_path)))


class TestWhoseData:
    def test_a_simulated_worker_reads_what_the_experiment_names(self) -> None:
        assert site_of({"partition-id": 0, IN_PROCESS: True}, []) is None

    def test_a_sites_name_defaults_to_its_directorys(self) -> None:
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
            (
                {IN_PROCESS: True},
                ["a"],
                "has no data directory: start it with --node-con",
            ),
            ({}, [], "has no data directory: start it with --node-config"),
            ({"partition-id": 0, "num-partitions": 2}, [], "has no data directory"),
            (
                {"data-dir": "/data/x"},
                [],
                "x is a site with its own data; run with partition=si",
            ),
            ({"partition-id": 0, "data-dir": "/data/x"}, [], "x is a site with its own data"),
            ({"data-dir": "data/x"}, ["x"], "site x, data-dir: must be an absolute path"),
            ({"data-dir": "/x", "max-nrom": 1}, ["x"], "max-nrom: is not a setting of a site; "),
            ({"data-dir": "/x", "max-norm": 0}, ["x"], "max-norm: input should be greater than 0"),
            ({"data-dir": "/x", "device": "tpu"}, ["x"], "device: input should be 'auto', 'cpu'"),
        ],
    )
    def test_any_other_configuration_is_refused(
        self, node_config: dict[str, object], sites: list[str], message: str
    ) -> None:
        with pytest.raises(SiteError, match=message):
            site_of(node_config, sites)


@pytest.fixture
def clinic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> tuple[Path, SiteGrid, list[int]]:
    """Start one site like a real SuperNode; return its data directory, its grid and its node.

    Its log is captured, whatever other tests have done to the logger.
    """
    logger = logging.getLogger("univarfl.client")
    monkeypatch.setattr(logger, "handlers", [caplog.handler])
    monkeypatch.setattr(logger, "propagate", False)
    directory = making.tree(tmp_path / "Clinic_X", ["cat", "dog"], 10)
    grid = SiteGrid(client_app.app.app, tmp_path, ["Clinic_X"], tmp_path)
    (node,) = grid.get_node_ids()
    grid._supernodes[node].context.node_config["site"] = "north"
    return directory, grid, [node]


class TestRedaction:
    """What a site's replies say when something is wrong with its files."""

    words: ClassVar = [*EXPERIMENT, "partition=sites", "partition.names=[north]"]

    def ask(
        self, clinic: tuple[Path, SiteGrid, list[int]], kind: Kind[Any, Any], **fields: Any
    ) -> Any:
        """The site's reply, or the failure."""
        _, grid, (node,) = clinic
        local = compose_experiment(self.words).local()
        weights = PackedTensors.of(Worker(local).initial_weights())
        own: dict[str, Any] = {}
        if kind is not REGISTER:
            own = {"clients": [0], "accepted": [0], "weights": weights}
        if kind is TRAIN:
            own |= {"shares": []}
        request = kind.request(
            run="run", experiment=local.model_dump_json(), fingerprint=fingerprint(), round=1,
            **own | fields,
        )  # fmt: skip
        addressed = AddressedRequest(node, request, grid.keys[node])
        (reply,) = Exchange(grid, kind, [addressed], 60).replies()
        return reply

    def test_a_site_reports_its_counts(self, clinic: tuple[Path, SiteGrid, list[int]]) -> None:
        found = self.ask(clinic, REGISTER)
        assert (found.site, found.index, found.nodes) == ("north", 0, 1)
        assert (found.train, found.validation, found.error) == (18, 2, "")

    def test_under_privacy_of_images_it_tells_neither_counts_nor_losses_nor_scores(
        self, clinic: tuple[Path, SiteGrid, list[int]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        words = [*self.words, "privacy=example", "method=fedavg", "model=linear"]
        monkeypatch.setattr(type(self), "words", words)
        found = self.ask(clinic, REGISTER)
        assert (found.train, found.validation, found.labels) == (UNTOLD_IMAGES, 0, [])
        row = self.ask(clinic, TRAIN).row(0)
        assert (row.examples, row.losses, row.reason) == (UNTOLD_IMAGES, {}, "")
        refused = self.ask(clinic, EVALUATE)
        assert isinstance(refused, Failure)
        assert "scores on its images are not sent with noise at the clients" in refused.reason

    @pytest.mark.parametrize("kind", [TRAIN, EVALUATE, REGISTER])
    def test_no_name_of_its_files_leaves_it(
        self, clinic: tuple[Path, SiteGrid, list[int]], kind: Kind[Any, Any],
        caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        (clinic[0] / "Jane_Doe_1970").mkdir()
        reply = self.ask(clinic, kind)
        text = reply.reason if isinstance(reply, Failure) else str(reply)
        assert "Jane" not in text
        assert str(clinic[0]) not in text
        assert "site north failed; see the site's log for the reason" in text
        assert "Jane_Doe_1970" in caplog.text

    def test_a_run_ends_if_its_images_change(
        self, clinic: tuple[Path, SiteGrid, list[int]]
    ) -> None:
        assert self.ask(clinic, REGISTER).error == ""
        assert not isinstance(self.ask(clinic, TRAIN), Failure)
        making.save(clinic[0] / "cat" / "new.png", 99)
        reply = self.ask(clinic, TRAIN)
        assert isinstance(reply, Failure)
        assert "its images have changed since the run began" in reply.reason

    def test_a_client_of_another_site_is_refused(
        self, clinic: tuple[Path, SiteGrid, list[int]]
    ) -> None:
        reply = self.ask(clinic, TRAIN, clients=[3])
        assert reply.row(3).reason == "client 3 is not trained here"

    @pytest.mark.parametrize("client", ["0/../../secret", -1, 1.5])
    def test_a_client_is_a_number_and_never_a_path(
        self, clinic: tuple[Path, SiteGrid, list[int]], client: Any,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        """The server of this test does not check what it sends."""
        monkeypatch.setattr(TrainRequest, "__init__", unchecked)
        reply = self.ask(clinic, TRAIN, clients=[client])
        assert isinstance(reply, Failure)
        assert "clients.0: Input should be" in reply.reason


def unchecked(self: TrainRequest, **fields: Any) -> None:
    """Set a request's fields without any check."""
    built = TrainRequest.model_construct(**fields)
    self.__dict__.update(built.__dict__)
    object.__setattr__(self, "__pydantic_fields_set__", built.model_fields_set)
    object.__setattr__(self, "__pydantic_extra__", None)
    object.__setattr__(self, "__pydantic_private__", None)


class TestComposition:
    def test_the_sites_are_the_clients(self) -> None:
        assert compose_experiment([*EXPERIMENT, *SITES]).num_clients == 2

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["data=digits"], "data=digits: is a benchmark data set and cannot be read"),
            (["data.classes=null"], "data.classes=None: all sites need the same classes"),
            (["partition.names=[]"], "partition.names=.*: must list each site once"),
        ],
    )
    def test_settings_that_sites_do_not_support_are_refused(
        self, words: list[str], message: str
    ) -> None:
        start = SITES if words == ["data=digits"] else [*EXPERIMENT, *SITES]
        with pytest.raises(ConfigError, match=message):
            compose_experiment([*start, *words])

    def test_sites_are_not_simulated(self) -> None:
        words = [*EXPERIMENT, *SITES]
        with pytest.raises(ConfigError, match="partition=sites: sites are real machines; see"):
            train_experiment(compose_experiment(words), words)
