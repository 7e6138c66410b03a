"""Simulated devices: how long they take, when they are available, and what a trace may hold."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from server_app.config.composition import compose_experiment
from server_app.rounds.devices.devices import UNAVAILABLE, Devices
from server_app.rounds.devices.profiles import DAY, HOUR, Population, Profiles
from server_app.rounds.devices.trace import COLUMNS, read_trace
from server_app.runs.identity import identity_of
from task.errors import ConfigError

MEDIAN = Population(0.01, 0.0, 8.0, 0.0, 24.0, 0.0, 0.0)  # 8 megabits are a million bytes a second


def devices(profiles: Profiles, variation: float = 0.0, seed: int = 0) -> Devices:
    """Devices of clients with 100 images each, two epochs, and replies of 3 MB."""
    images = np.full(len(profiles.dropout), 100)
    return Devices(profiles, images, 2, 6_000_000, variation, seed)


def profiles(clients: int = 4, **changes: float) -> Profiles:
    return Population(**{**vars(MEDIAN), **changes}).draw(clients, seed=0)


class TestTime:
    def test_it_is_that_of_images_epochs_and_bytes_in_both_directions(self) -> None:
        found = devices(profiles()).attempt(0, 1, 50.0)
        assert found.seconds == pytest.approx(100 * 2 * 0.01 + 2 * 3)
        assert found.ends == pytest.approx(58.0)
        assert found.arrives

    def test_speeds_and_bandwidths_are_log_normal(self) -> None:
        found = profiles(100_000, speed_sigma=0.5, bandwidth_sigma=1.5)
        assert np.log(found.seconds_per_image).std() == pytest.approx(0.5, rel=0.02)
        assert np.median(found.seconds_per_image) == pytest.approx(0.01, rel=0.02)
        assert np.log(found.bytes_per_second).std() == pytest.approx(1.5, rel=0.02)
        assert np.median(found.bytes_per_second) == pytest.approx(1e6, rel=0.02)

    def test_a_client_has_the_same_device_among_more_clients(self) -> None:
        few, many = profiles(5, speed_sigma=1.0), profiles(500, speed_sigma=1.0)
        assert np.array_equal(few.seconds_per_image, many.seconds_per_image[:5])

    def test_attempts_vary_by_round_and_client_alone(self) -> None:
        some = devices(profiles(), variation=0.3)
        found = {some.attempt(c, r, 0.0).seconds for c in range(4) for r in range(1, 6)}
        assert len(found) == 20
        again = devices(profiles(), variation=0.3).attempt(2, 3, 7.0)
        assert again.seconds == some.attempt(2, 3, 0.0).seconds
        assert devices(profiles(), 0.3, seed=1).attempt(2, 3, 0.0).seconds != again.seconds

    def test_the_usual_seconds_of_all_are_those_of_each(self) -> None:
        some = devices(profiles(50, speed_sigma=1.0, bandwidth_sigma=1.0))
        each = [some.usual_seconds(client) for client in range(50)]
        assert some.usual_seconds() == pytest.approx(each)


class TestAvailability:
    def test_a_device_is_available_for_its_hours_around_midnight(self) -> None:
        some = devices(profiles(10_000, available_hours=6.0, available_spread=2.0))
        hours = np.array([some.available(hour * HOUR).mean() for hour in range(24)])
        assert hours.sum() == pytest.approx(6, rel=0.02)  # client-hours a day for each client
        assert hours.argmax() in (2, 3, 4)
        assert hours[12:20].max() < 0.01

    def test_an_attempt_outside_the_hours_does_not_start_and_one_beyond_them_is_lost(self) -> None:
        some = devices(profiles(1, available_hours=1.0))
        assert some.attempt(0, 1, 2 * HOUR).reason == UNAVAILABLE
        assert some.attempt(0, 1, HOUR - 20).arrives
        lost = some.attempt(0, 1, HOUR - 2)
        assert lost.reason == "not available any more from hour 1.0 of the day"
        assert (lost.ends, lost.seconds) == pytest.approx((HOUR, 2))

    def test_the_next_available_moment(self) -> None:
        some = devices(profiles(1, available_hours=1.0))
        assert some.next_available(30.0) == 30.0
        assert some.next_available(5 * HOUR) == pytest.approx(DAY)
        assert some.available(some.next_available(5 * HOUR)).any()
        always = devices(profiles(3))
        assert always.next_available(5 * HOUR) == 5 * HOUR
        assert always.available(5 * HOUR).all()

    def test_a_device_that_is_always_available_is_so_just_before_its_hour(self) -> None:
        since_eight = replace(profiles(1), available_from=np.array([8 * HOUR]))
        some = devices(since_eight)
        assert some.available(float(np.nextafter(8 * HOUR, 0))).all()

    @pytest.mark.parametrize("hours", [0.05, 1.0, 8.0])
    def test_somebody_is_available_then_however_the_times_are_rounded(self, hours: float) -> None:
        for seed in range(100):
            drawn = replace(MEDIAN, available_hours=hours, available_spread=4.0).draw(10, seed)
            some = devices(drawn, seed=seed)
            now = some.next_available(9.7 * HOUR + seed)
            assert some.available(now).any()
            later = some.next_available(now, ~some.available(now))
            assert some.available(later).any()

    def test_as_many_attempts_drop_out_as_the_chance_says(self) -> None:
        some = devices(profiles(4000, dropout=0.25))
        attempts = [some.attempt(client, 1, 0.0) for client in range(4000)]
        lost = [each for each in attempts if not each.arrives]
        assert len(lost) == pytest.approx(1000, rel=0.1)
        assert all(0 <= each.seconds <= 8 for each in lost)
        assert np.mean([each.seconds for each in lost]) == pytest.approx(4, rel=0.1)


class TestTrace:
    def write(self, tmp_path: Path, *rows: str) -> Path:
        path = tmp_path / "trace.csv"
        path.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")
        return path

    def test_each_row_is_a_client(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "0.5,8,22.5,3,0", "1,16,24,24,0.5", "9,9,9,9,0")
        found = read_trace(path, 2)
        assert found.seconds_per_image.tolist() == [0.5, 1]
        assert found.bytes_per_second.tolist() == [1e6, 2e6]
        assert found.available_from.tolist() == [22.5 * HOUR, 0]
        assert found.available_seconds.tolist() == [3 * HOUR, DAY]
        assert found.dropout.tolist() == [0, 0.5]

    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            ("0.5,0,0,24,0", r"line 2: megabits must be from 1e-06 to 1e\+09"),
            ("fast,8,0,24,0", "line 2: seconds_per_image must be from 0"),
            ("0.5,8,0,24,1.5", "line 2: dropout must be from 0 to 1"),
            ("0.5,8,0,0,0", "line 2: available_hours must be from 0.001 to 24"),
            ("0.5,8,0,24", "line 2: dropout"),
            ("0.5,8,0,24,0,1", "must be a CSV file"),
        ],
    )
    def test_wrong_values_are_named(self, tmp_path: Path, row: str, reason: str) -> None:
        with pytest.raises(ConfigError, match=reason):
            read_trace(self.write(tmp_path, row), 1)

    def test_what_is_no_trace_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="has 1 rows, and there are 5 clients"):
            read_trace(self.write(tmp_path, "1,1,1,1,0"), 5)
        with pytest.raises(ConfigError, match=r"clock\.trace=.*must be a file: no such file"):
            read_trace(tmp_path / "nothing.csv", 1)
        (tmp_path / "other.csv").write_text("a,b\n1,2\n")
        with pytest.raises(ConfigError, match="must have the columns seconds_per_image,megabits"):
            read_trace(tmp_path / "other.csv", 1)

    def test_a_changed_file_is_another_experiment(self, tmp_path: Path) -> None:
        words = ["clock=virtual", "num_clients=2"]
        plain = compose_experiment(words).model_dump()
        rows = ["1,1,0,24,0", "2,1,0,24,0"]
        words.append(f"clock.trace={self.write(tmp_path, *rows)}")
        with pytest.raises(
            ConfigError, match=r"has no effect with clock\.trace, whose file describes"
        ):
            compose_experiment([*words, "clock.dropout=0.5"])
        first, again = (compose_experiment(words).model_dump() for _ in range(2))
        self.write(tmp_path, *rows[::-1])
        other = compose_experiment(words).model_dump()
        found = [identity_of(each, None) for each in (plain, first, again, other)]
        assert found[1] == found[2]
        assert len(set(found)) == 3

        (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00\x01,,\n")
        with pytest.raises(ConfigError, match="must"):
            read_trace(tmp_path / "bytes.csv", 1)
