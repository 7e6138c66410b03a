"""A site's ledger: what it adds up, what it refuses, and what does not reset it."""

import errno
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from task.errors import SiteError
from task.machine.files import write_whole
from task.privacy.accounting import SampledGaussian, pld_epsilon
from task.privacy.images import Hashes, image_hashes
from task.privacy.ledger import LEDGER, PrivacyLedger

DELTA = 1e-5
ROUND = SampledGaussian(2.0, 0.1, 20)
OTHER = SampledGaussian(3.0, 0.2, 10)
IMAGES = np.arange(100, 200, dtype=np.uint64)


def ledger(place: Path, max_epsilon: float = 100.0) -> PrivacyLedger:
    return PrivacyLedger(place / "ledger", max_epsilon, DELTA)


def epsilon_of(*spent: SampledGaussian) -> float:
    return pld_epsilon(tuple(spent), DELTA)


def test_rounds_of_all_settings_add_up(tmp_path: Path) -> None:
    charged = [ledger(tmp_path).charge(IMAGES, training) for training in (ROUND, ROUND, OTHER)]
    twice = SampledGaussian(2.0, 0.1, 40)
    assert charged == [epsilon_of(ROUND), epsilon_of(twice), epsilon_of(twice, OTHER)]
    assert ledger(tmp_path).spent(IMAGES) == charged[-1]


def test_the_round_that_would_exceed_the_limit_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    small = ledger(tmp_path, epsilon_of(SampledGaussian(2.0, 0.1, 40)) + 0.01)
    small.charge(IMAGES, ROUND)
    small.charge(IMAGES, ROUND)
    before = (tmp_path / "ledger" / LEDGER).read_bytes()
    message = r"have spent epsilon 1\.\d+ of at most 1\.\d+ at delta 1e-05"
    with pytest.raises(SiteError, match=message):
        small.charge(IMAGES, ROUND)
    assert (tmp_path / "ledger" / LEDGER).read_bytes() == before
    small.charge(IMAGES, SampledGaussian(100.0, 0.001, 1))  # one that fits


def test_pairs_of_noise_and_rate_that_would_make_it_slow_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("task.privacy.ledger.MOST_SETTINGS", 2)
    kept = ledger(tmp_path)
    for noise in (100.0, 101.0):
        kept.charge(IMAGES, SampledGaussian(noise, 0.1, 1))
    with pytest.raises(SiteError, match="trained on with 2 pairs of noise and sampling rate"):
        kept.charge(IMAGES, SampledGaussian(102.0, 0.1, 1))
    kept.charge(IMAGES, SampledGaussian(100.0, 0.1, 1))


def test_a_first_round_that_is_too_large_leaves_a_usable_ledger(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match=r"have spent epsilon 0\.000 of at most 0\.1"):
        ledger(tmp_path, 0.1).charge(IMAGES, ROUND)
    assert ledger(tmp_path).charge(IMAGES, ROUND) == epsilon_of(ROUND)


def test_a_higher_limit_goes_on_from_what_was_spent(tmp_path: Path) -> None:
    ledger(tmp_path, 2.0).charge(IMAGES, ROUND)
    assert ledger(tmp_path, 50.0).charge(IMAGES, OTHER) == epsilon_of(ROUND, OTHER)


@pytest.mark.parametrize(
    ("now", "shares"),
    [
        (np.append(IMAGES, np.uint64(5)), True),
        (IMAGES[:1], True),
        (np.arange(199, 400, dtype=np.uint64), True),
        (np.arange(200, 400, dtype=np.uint64), False),
    ],
    ids=["one more", "all but one removed", "one is left", "all new"],
)
def test_images_keep_what_they_spent_in_whatever_company(
    tmp_path: Path, now: Hashes, shares: bool
) -> None:
    ledger(tmp_path).charge(IMAGES, ROUND)
    expected = epsilon_of(OTHER, ROUND) if shares else epsilon_of(OTHER)
    assert ledger(tmp_path).charge(now, OTHER) == pytest.approx(expected)


def test_an_image_of_two_sets_has_spent_what_both_have(tmp_path: Path) -> None:
    ledger(tmp_path).charge(IMAGES, ROUND)
    both = np.arange(150, 250, dtype=np.uint64)
    ledger(tmp_path).charge(both, OTHER)
    assert ledger(tmp_path).spent(IMAGES[60:61]) == pytest.approx(epsilon_of(ROUND, OTHER))
    assert ledger(tmp_path).spent(both[90:]) == pytest.approx(epsilon_of(OTHER))


def test_files_are_known_by_their_content_alone(tmp_path: Path) -> None:
    first = tmp_path / "first" / "cat"
    first.mkdir(parents=True)
    for number in range(5):
        (first / f"{number}.png").write_bytes(bytes([number]) * 3_000_000)
    (first / "copy.png").write_bytes(bytes([0]) * 3_000_000)
    hashes = image_hashes(tmp_path / "first")
    assert len(hashes) == 5
    (tmp_path / "first").rename(tmp_path / "moved")
    (tmp_path / "moved" / "cat" / "1.png").rename(tmp_path / "moved" / "renamed.png")
    os.utime(tmp_path / "moved" / "renamed.png", (0, 0))
    assert np.array_equal(image_hashes(tmp_path / "moved"), hashes)
    (tmp_path / "moved" / "renamed.png").write_bytes(b"another")
    assert len(np.intersect1d(image_hashes(tmp_path / "moved"), hashes)) == 4


def test_images_behind_a_link_are_known(tmp_path: Path) -> None:
    """Training reads them, so that they must be charged."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.png").write_bytes(b"a")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "cat").symlink_to(tmp_path / "real")
    assert np.array_equal(image_hashes(tmp_path / "site"), image_hashes(tmp_path / "real"))
    assert len(image_hashes(tmp_path / "site")) == 1
    for name in ("one", "two"):  # two links in a circle would be followed without end
        (tmp_path / "real" / name).symlink_to(tmp_path / "real")
    assert len(image_hashes(tmp_path / "site")) == 1


def test_files_are_read_once_for_each_version(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"a")
    book = ledger(tmp_path)
    found = book.images_of("v1", tmp_path / "images")
    (tmp_path / "images" / "b.png").write_bytes(b"b")
    assert np.array_equal(book.images_of("v1", tmp_path / "images"), found)
    assert len(book.images_of("v2", tmp_path / "images")) == 2


@pytest.mark.parametrize("left", [0, 3, 31, 40])
def test_hashes_of_images_that_were_cut_are_computed_again(tmp_path: Path, left: int) -> None:
    """Otherwise an empty file would mean that there are no images, and nothing is charged."""
    images = tmp_path / "images"
    images.mkdir()
    for number in range(3):
        (images / f"{number}.png").write_bytes(bytes([number]))
    first = ledger(tmp_path).images_of("v", images)
    path = tmp_path / "ledger" / "v.files"
    path.write_bytes(path.read_bytes()[:left])
    assert np.array_equal(ledger(tmp_path).images_of("v", images), first)
    assert len(first) == 3


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"charges": [', b"[]", b'{"charges": [{"images": "x"}]}', b'{"other": 1}'],
)
def test_a_damaged_ledger_is_not_an_empty_one(tmp_path: Path, content: bytes) -> None:
    ledger(tmp_path).charge(IMAGES, ROUND)
    (tmp_path / "ledger" / LEDGER).write_bytes(content)
    with pytest.raises(SiteError, match="privacy ledger cannot be read"):
        ledger(tmp_path).charge(IMAGES, ROUND)


@pytest.mark.parametrize("change", ["deleted", "without images", "other images"])
def test_a_part_of_it_that_is_missing_is_noticed(tmp_path: Path, change: str) -> None:
    ledger(tmp_path).charge(IMAGES, ROUND)
    (images,) = (tmp_path / "ledger").glob("*.images")
    if change == "deleted":
        (tmp_path / "ledger" / LEDGER).unlink()
    elif change == "without images":
        images.unlink()
    else:
        images.write_bytes(np.arange(3, dtype=np.uint64).tobytes())
    with pytest.raises(SiteError, match="privacy ledger cannot be read"):
        ledger(tmp_path).charge(IMAGES, ROUND)


def test_a_write_that_was_torn_off_leaves_the_ledger_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The charge is not on the disk, so the round is not trained."""
    ledger(tmp_path).charge(IMAGES, ROUND)

    def power_failure(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError("no power")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", power_failure)
        with pytest.raises(OSError, match="no power"):
            ledger(tmp_path).charge(IMAGES, OTHER)
    assert ledger(tmp_path).spent(IMAGES) == epsilon_of(ROUND)
    assert ledger(tmp_path).charge(IMAGES, OTHER) == epsilon_of(ROUND, OTHER)


def test_a_disk_that_is_full_at_the_first_charge_leaves_a_usable_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The images were kept before the charge, and a set of images alone looks like a loss."""

    def full(path: Path, content: bytes) -> None:
        if b"steps" in content:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_whole(path, content)

    with monkeypatch.context() as patch:
        patch.setattr("task.privacy.ledger.write_whole", full)
        with pytest.raises(OSError, match="No space"):
            ledger(tmp_path).charge(IMAGES, ROUND)
    assert ledger(tmp_path).charge(IMAGES, ROUND) == epsilon_of(ROUND)


def test_a_clock_that_is_set_back_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger(tmp_path).charge(IMAGES, ROUND)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    for path in (tmp_path / "ledger").iterdir():
        os.utime(path, (0, 0))
    assert ledger(tmp_path).charge(IMAGES, OTHER) == epsilon_of(ROUND, OTHER)
    assert "time" not in json.loads((tmp_path / "ledger" / LEDGER).read_text())["charges"][0]


def test_charges_at_the_same_time_all_count(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: ledger(tmp_path).charge(IMAGES, ROUND), range(8)))
    assert ledger(tmp_path).spent(IMAGES) == epsilon_of(SampledGaussian(2.0, 0.1, 160))


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    ledger(tmp_path).charge(IMAGES, ROUND)
    assert (tmp_path / "ledger").stat().st_mode & 0o077 == 0
