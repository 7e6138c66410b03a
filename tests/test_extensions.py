"""A package outside the clone: its method, strategy and data source, and who runs them."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import univarfl.extend
from client_app.masked.identity import ParticipantIdentity, identity_of
from client_app.session import Session
from client_app.work_unit import evaluate_clients, train_clients
from server_app.config.composition import compose_experiment
from server_app.nodes.messages import RunIdentity
from server_app.nodes.registration import other_code_message
from server_app.runs import identity
from server_app.runs.records.run_record import read_entries
from task import extensions, registry
from task.errors import ConfigError, SiteError
from task.fingerprint import fingerprint, fingerprint_for
from task.methods.fedavg import FedAvg
from task.protocol.registration import RegistrationReply, RegistrationRequest
from task.site import Site
from tests.conftest import Train, only_run, sha256
from tests.extension_package import forget_extensions

WORDS = ("data=stripes", "method=logit_decay", "strategy=half_step")
SITE_WORDS = (
    "method=logit_decay", "partition=sites", "partition.names=[north]", "data=folder",
    "data.classes=[cat,dog]",
)  # fmt: skip


def local(*words: str) -> str:
    return compose_experiment(words).local().model_dump_json()


@pytest.mark.usefixtures("installed")
def test_its_components_train_and_are_in_the_record(train: Train) -> None:
    record = read_entries(train(*WORDS, "data.images=60", "num_clients=2", "rounds=1"))
    assert record["status"] == "completed"
    chosen = {group: record["config"][group]["name"] for group in ("data", "method", "strategy")}
    assert chosen == {"data": "stripes", "method": "logit_decay", "strategy": "half_step"}
    modules = (
        "hospital_extras.logit_decay",
        "hospital_extras.half_step",
        "hospital_extras.stripes",
    )
    assert set(modules) <= record["components"].keys()
    assert record["fingerprint"] == fingerprint_for(local(*WORDS)) != fingerprint()


@pytest.mark.usefixtures("installed")
def test_a_changed_file_is_another_run(
    hospital_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hashes(*words: str) -> tuple[Any, ...]:
        fingerprint.cache_clear()
        identity.component_hash.cache_clear()
        experiment = compose_experiment(words)
        config = experiment.model_dump()
        whole = identity.identity_of(config, identity.code_of(config))
        return fingerprint_for(experiment.local().model_dump_json()), whole

    before, without = hashes(*WORDS), hashes()
    (hospital_package / "hospital_extras" / "helper.py").write_text("VALUE = 1\n")
    try:
        after = hashes(*WORDS)
        assert after[0] != before[0]
        assert after[1] != before[1]
        assert hashes() == without
    finally:
        (hospital_package / "hospital_extras" / "helper.py").unlink()
        fingerprint.cache_clear()


@pytest.mark.usefixtures("installed")
def test_what_cannot_be_used_is_left_out_and_our_own_names_stay_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "univarfl"):
        names = registry.names("method")
    assert "logit_decay" in names
    assert "misnamed" not in names
    assert (
        "package hospital-extras: method 'misnamed' must name a module PACKAGE.misnamed, and names "
        "hospital_extras.logit_decay"
    ) in caplog.text
    assert "'fedavg' is left out, because univarfl has one of this name" in caplog.text
    assert registry.component_class("method", "fedavg") is FedAvg
    assert extensions.run_by_clients(local("method=fedavg")) == ()
    assert compose_experiment(["method=fedavg"]).method == {"name": "fedavg"}


@pytest.mark.parametrize("text", ["", "null", "[]", "{'a': 1}", "[" * 100_000])
def test_text_that_is_no_experiment_is_refused(text: str) -> None:
    """It could name a component in a form that only another reader understands."""
    with pytest.raises(ConfigError, match="must be a JSON object"):
        extensions.run_by_clients(text)


def test_settings_of_another_form_name_no_component() -> None:
    assert extensions.run_by_clients('{"method": [], "data": {"name": 1}}') == ()


def test_without_the_package_its_names_are_unknown() -> None:
    with pytest.raises(ConfigError, match="method=logit_decay: "):
        compose_experiment(["method=logit_decay"])


def identity_of_one(session: Session[Any]) -> ParticipantIdentity:
    """Return what a site's part of a masked round begins with."""
    return identity_of(session, {})


class TestSite:
    """A site that is asked to run the package."""

    def session(self, **settings: Any) -> Session[RegistrationRequest]:
        text = local(*SITE_WORDS)
        forget_extensions()
        request = RegistrationRequest(run="run", experiment=text, fingerprint=fingerprint_for(text))
        return Session(request, {"site": "north", "data-dir": "/data", **settings})

    @pytest.mark.usefixtures("installed")
    @pytest.mark.parametrize("listed", [{}, {"extensions": "other-package"}])
    def test_it_refuses_a_package_that_it_does_not_list(self, listed: dict[str, str]) -> None:
        session = self.session(**listed)
        with pytest.raises(SiteError) as caught:
            _ = session.worker
        assert str(caught.value) == (
            "site north does not run code of the package 'hospital-extras', which "
            "method=logit_decay needs; its owner can add it to extensions in site.toml"
        )
        assert "hospital_extras.logit_decay" not in sys.modules

    @pytest.mark.usefixtures("installed")
    @pytest.mark.parametrize("work", [train_clients, evaluate_clients, identity_of_one])
    def test_no_message_imports_such_a_package(self, work: Callable[[Any], object]) -> None:
        """A coordinator may leave out the registration, where the site refuses it."""
        with pytest.raises(SiteError, match="does not run code of the package"):
            work(self.session())
        assert "hospital_extras.logit_decay" not in sys.modules

    @pytest.mark.usefixtures("installed")
    @pytest.mark.parametrize("listed", ["Hospital.Extras", ["other", "hospital_extras"]])
    def test_it_runs_a_package_that_it_lists(self, listed: object) -> None:
        site = self.session(extensions=listed).site
        assert site is not None
        assert "hospital-extras" in site.extensions
        dumped = site.model_dump(by_alias=True, exclude_unset=True)["extensions"]
        assert isinstance(dumped, str)  # Flower's settings take no lists
        assert Site.from_node_config({"data-dir": "/data", "extensions": dumped}).extensions == (
            site.extensions
        )

    @pytest.mark.usefixtures("installed")
    def test_a_supernode_without_directory_imports_nothing(self) -> None:
        session = self.session()
        with pytest.raises(SiteError, match="no data directory"):
            _ = Session(session.request, {}).site
        assert "hospital_extras.logit_decay" not in sys.modules

    @pytest.mark.usefixtures("installed")
    def test_the_coordinator_names_the_package_that_a_site_lacks(self) -> None:
        request = self.session().request
        reply = RegistrationReply.to(
            request, site="north", index=0, nodes=1, train=2, validation=0, labels=[], code="",
            device="cpu", cuda=False, runtime="process", compiled=False, host="", state="",
            error="",
        )  # fmt: skip
        message = other_code_message("north", reply, RunIdentity("run", request.experiment))
        assert "install the same version of univarfl and of hospital-extras, which this" in message


@pytest.mark.parametrize("value", [1, [1], {"a": "b"}])
def test_a_site_with_other_extensions_is_refused(value: object) -> None:
    with pytest.raises(SiteError, match="extensions: must be a list of the names of packages"):
        Site.from_node_config({"data-dir": "/data", "extensions": value})


def test_extend_offers_what_it_names() -> None:
    for name in univarfl.extend.__all__:
        assert getattr(univarfl.extend, name)
    with pytest.raises(AttributeError):
        univarfl.extend.nothing  # noqa: B018


@pytest.mark.slow
def test_the_command_trains_with_it_in_this_process_and_through_flower_and_ray(
    hospital_package: Path, tmp_path: Path
) -> None:
    hashes = []
    for engine in ("inprocess", "flower"):
        own = tmp_path / engine
        environment = {
            **os.environ,
            "PYTHONPATH": str(hospital_package),
            "UNIVARFL_RUNS": str(own / "runs"),
        }
        (own / "empty").mkdir(parents=True)
        command = ["-m", "univarfl", "train", *WORDS, f"engine={engine}", "federation.workers=2"]
        ended = subprocess.run(
            [sys.executable, *command],
            cwd=own / "empty", env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        directory = only_run(own)
        assert json.loads((directory / "run.json").read_text())["status"] == "completed"
        hashes.append(sha256(directory))
    assert len(set(hashes)) == 1
