"""Which experiments a site refuses to train with masks."""

import pytest

from server_app.config.composition import compose_experiment
from task.errors import ConfigError
from task.rules import read_local_config

KEPT = "keeps something at each client between rounds"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("method=moon", f"method=moon: {KEPT}"),
        ("method=fedlesam", f"method=fedlesam: {KEPT}"),
        ("method=fedbn", f"method=fedbn: {KEPT}"),
        ("method=univarfl+moon", f"method=moon: {KEPT}"),
        ("method=scaffold", "method=scaffold: has a server update"),
        ("optim.keep_momentum=true", "a coordinator could use the kept momentum"),
        ("privacy=example method=fedavg model.norm=group", "does not fit masks yet"),
    ],
)
def test_a_site_refuses_what_masks_do_not_protect(word: str, reason: str) -> None:
    """It refuses the settings that a coordinator sends, whatever the coordinator itself checks."""
    sent = (
        compose_experiment(word.split())
        .local()
        .model_copy(update={"secure": compose_experiment(["secure=masked"]).secure})
    )
    with pytest.raises(ConfigError, match=reason):
        read_local_config(sent.model_dump_json())


@pytest.mark.parametrize("method", ["fedavg", "univarfl", "feduv", "fedprox", "univarfl+fedprox"])
def test_methods_that_keep_nothing_are_masked(method: str) -> None:
    assert compose_experiment([f"method={method}", "secure=masked"]).secure.masked
