"""The page of a report: the headline, links, curves, and the browser's security policy."""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tests.server_app.runs.recorded import record
from univarfl.records.reader import read_run, read_runs
from univarfl.report.page.headline import Difference, counts_in_words, headlines
from univarfl.report.page.render import link_to
from univarfl.report.readings import LAST
from univarfl.report.summary import Summary
from univarfl.report.write import report

GAINS = (0.1, 0.2, 0.1, 0.2, 0.15)  # mean 15, standard deviation 5, t(4) 2.776: 15 ± 6.2


def recorded(place: Path, method: str, gains: tuple[float, ...], *words: str) -> None:
    for seed, gain in enumerate(gains):
        name = f"{method}-{seed}-{len(list(place.glob('*')))}"
        record(place, name, [f"method={method}", f"seed={seed}", *words], [0.1, 0.5 + gain])


def headlines_of(place: Path, baseline: str | None = None) -> list[str]:
    return headlines(Summary(read_runs(place).runs), baseline)


def test_the_headline_is_the_paired_difference_in_words(tmp_path: Path) -> None:
    recorded(tmp_path, "fedavg", (0.0,) * 5)
    recorded(tmp_path, "univarfl", GAINS)
    assert headlines_of(tmp_path) == [
        "UniVarFL +15.0 points over FedAvg, 95 % +8.8 to +21.2, five seeds (last round)"
    ]
    assert headlines_of(tmp_path, "UniVarFL") == [
        "FedAvg -15.0 points over UniVarFL, 95 % -21.2 to -8.8, five seeds (last round)"
    ]
    recorded(tmp_path, "fedprox", (-0.1, 0.1, 0.0, 0.1, 0.0))
    (line,) = headlines_of(tmp_path)
    assert line.endswith("(last round, one of 2 methods compared)")


def test_a_headline_says_when_the_interval_includes_0(tmp_path: Path) -> None:
    recorded(tmp_path, "fedavg", (0.0,) * 5)
    recorded(tmp_path, "moon", (-0.1, 0.1, 0.0, 0.1, 0.0))
    assert headlines_of(tmp_path) == [
        "MOON +2.0 points over FedAvg, 95 % -8.4 to +12.4, five seeds, not significant (last round)"
    ]


def test_many_settings_are_counted() -> None:
    pairs = [(10, 20, 10, 20, 15), (-10, 10, 0, 10, 0), (1, 1, 1, 1, 1), (-1, -2, -1, -2, -1)]
    found = [
        Difference(f"alpha {place}", LAST, "UniVarFL", "FedAvg", 1, pd.Series(values, dtype=float))
        for place, values in enumerate(pairs)
    ]
    assert counts_in_words(found) == (
        "UniVarFL compared with FedAvg in 4 settings: above in 2, below in 1, not significant in 1 "
        "(last round, 95 % intervals)"
    )


def test_too_few_seeds_or_methods_give_no_headline(tmp_path: Path) -> None:
    recorded(tmp_path, "fedavg", (0.0,) * 5)
    assert headlines_of(tmp_path) == []
    recorded(tmp_path, "univarfl", GAINS[:4])
    assert headlines_of(tmp_path) == []
    report(tmp_path, tmp_path / "report")
    assert '<p class="headline">' not in (tmp_path / "report" / "index.html").read_text()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("runs")
    recorded(place, "fedavg", (0.0, 0.1))
    report(place, place / "report")
    return (place / "report" / "index.html").read_text()


def test_the_policy_allows_the_scripts_and_styles_of_the_page_alone(page: str) -> None:
    for tag in ("script", "style"):
        texts = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digests = [hashlib.sha256(text.encode()).digest() for text in texts]
        expected = [f"sha256-{base64.b64encode(digest).decode()}" for digest in digests]
        found = re.search(f'{tag}-src ([^;"]*)', html.unescape(page))
        assert found
        allowed = re.findall(r"sha256-[A-Za-z0-9+/=]+", found[1])
        assert (allowed, len(allowed) > 0) == (expected, True)
    assert "unsafe-inline" not in page
    assert "default-src &#39;none&#39;" in page


def test_curves_are_numbers_in_the_page(page: str) -> None:
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', page)
    assert found
    (chart,) = json.loads(found[1])["Accuracy over the rounds"]
    (series,) = chart["series"]
    assert (series["x"], series["y"]) == ([0, 1], [10.0, 55.0])
    assert (series["low"][1], series["high"][1]) == (47.929, 62.071)


def test_what_is_meaningless_for_one_method_is_left_out(page: str) -> None:
    headings = re.findall("<h2[^>]*>([^<]*)</h2>", page)
    assert "Runs" in headings
    assert not {"Rounds to a target", "Paired differences"} & set(headings)
    assert "mean of the last five, %" not in page  # two rounds have none
    assert "last round, %" in page


def test_a_run_links_to_its_record_whatever_its_name(tmp_path: Path, page: str) -> None:
    assert '<a href="../fedavg-0-0/run.json">fedavg-0-0</a>' in page
    found = read_run(record(tmp_path, "run", [], [0.1, 0.5]))
    run = replace(found, directory=tmp_path / 'javascript:"x y?#')
    assert link_to(run, tmp_path / "report") == "../javascript%3A%22x%20y%3F%23/run.json"
