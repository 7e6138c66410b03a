"""What is suggested for keys that mean noise."""

import pytest

from server_app.config.vocabulary.noise import noise_to_type

CONFIG = {"privacy": {"unit": "example"}}


@pytest.mark.parametrize(
    ("value", "used"), [("0.5", "0.5"), ("1e-3", "1e-3"), ("0.5x", "1.0"), ("2 3", "1.0")]
)
def test_a_value_is_suggested_again_only_if_all_of_it_is_a_number(value: str, used: str) -> None:
    assert noise_to_type("noise", value, CONFIG) == noise_to_type("noise", used, CONFIG) != ""
    assert f"={used}" in noise_to_type("noise", value, CONFIG)
    assert "0.5x" not in noise_to_type("noise", value, CONFIG)
