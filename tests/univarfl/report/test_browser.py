"""The dashboard and the report in Chromium: sort, filter, hover, and follow a run."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from server_app.runs.lock import hold
from server_app.runs.records.tables import ANALYSIS, CLIENT_COLUMNS, CLIENTS, EVENTS, ROUNDS
from tests.browser import dashboard, needs_browser, opened, started_browser
from tests.server_app.runs.recorded import record
from univarfl.report.write import report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.slow, needs_browser]
ATTACK = "<img src=x onerror=document.title='attacked'>"


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with started_browser() as found:
        yield found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pages") / "runs"
    for method, gain in (("fedavg", 0.0), ("univarfl", 0.2)):
        words = [f"method={method}", "engine=inprocess"]
        first = record(place, f"{method}-0", words, [0.1, 0.3, 0.5 + gain])
        for seed in range(5):
            accuracy = 0.5 + gain + 0.01 * seed
            run = place / f"{method}-{seed}"
            if seed:
                shutil.copytree(first, run)
            text = (run / ROUNDS).read_text().replace(f",{0.5 + gain}\n", f",{accuracy}\n")
            (run / ROUNDS).write_text(text)
            config = json.loads((run / "run.json").read_text())["config"] | {"seed": seed}
            results = {"test": {"accuracy": accuracy}}
            change(run, config=config, results=results, reply_bytes=1_000_000)
    analysed(place / "fedavg-0" / ANALYSIS)
    report(place, place.parent / "report")
    return place


def analysed(place: Path) -> None:
    """Write tables as ``univarfl analyse`` does: a map of three images, and a loss landscape."""
    place.mkdir()
    points = ["0,cat,,0.0,0.0,5", "0,dog,,1.0,1.0,5", "1,cat,,2.0,2.0,5"]
    (place / "features.csv").write_text(
        "\n".join(["client,class,domain,x,y,most images", *points, ""])
    )
    grid = [f"{first},{second},{1 + first * first + second},5" for first in range(15)
            for second in range(15)]  # fmt: skip
    (place / "landscape.csv").write_text("\n".join(["first,second,loss,most images", *grid, ""]))


def change(run: Path, **entries: object) -> None:
    """Change entries of a run.json, as a run does: the file is replaced whole."""
    draft = run / "draft"
    draft.write_text(json.dumps(json.loads((run / "run.json").read_text()) | entries))
    draft.replace(run / "run.json")


def column(page: "Page", table: str, place: int) -> list[str]:
    """Return the cells of a column of the rows that are shown."""
    rows = page.locator(f"{table} tbody tr:visible")
    return [str(text) for text in rows.locator(f"td:nth-child({place})").all_inner_texts()]


def sort_filter_and_read(page: "Page", table: str, place: int, chart: str) -> None:
    """Use a table and a chart as a person does, with mouse and keyboard."""
    heading = page.locator(f"{table} th:nth-child({place})")
    heading.locator("button").click()
    ascending = column(page, table, place)
    assert ascending == sorted(ascending, key=float)
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.locator("button").focus()
    page.keyboard.press("Enter")
    assert column(page, table, place) == ascending[::-1]
    assert heading.get_attribute("aria-sort") == "descending"

    section = page.locator(f"section:has({table})")
    section.get_by_role("searchbox").fill("UNIVARFL-3 0")
    assert len(column(page, table, place)) == 1
    assert "1 of 10 rows" in section.inner_text()
    section.get_by_role("searchbox").fill("")
    assert len(column(page, table, place)) == 10

    plot = page.locator(f"{chart} .plot")
    plot.scroll_into_view_if_needed()
    page.locator(f"{chart} .u-over").hover(position={"x": 3, "y": 30})
    first = page.locator(f"{chart} .legend .value").all_inner_texts()
    assert "round 0" in page.locator(f"{chart} .readout").inner_text()
    page.mouse.move(0, 0)
    plot.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert "round 2" in page.locator(f"{chart} .readout").inner_text()
    assert page.locator(f"{chart} .legend .value").all_inner_texts() != first
    assert "Last values: " in str(plot.get_attribute("aria-label"))

    name = page.locator(f"{chart} .legend button").first
    name.click()
    assert name.get_attribute("aria-pressed") == "false"
    name.click()
    assert name.get_attribute("aria-pressed") == "true"


def test_the_dashboard_sorts_filters_and_reads_curves(browser: "Browser", runs: Path) -> None:
    gone = "ERR_CONNECTION_REFUSED"
    with (
        dashboard(runs) as (address, process),
        opened(browser, address, expected=gone) as page,
    ):
        sort_filter_and_read(page, "#runs", 4, "#curve")
        assert page.locator(".legend button").count() == 3
        page.locator("#none").click()
        for name in ("fedavg-0", "univarfl-0"):
            page.get_by_label(f"Choose {name}").check()
        page.wait_for_selector("#differences td:has-text('method.name')")
        page.select_option("#axis", "megabytes")
        page.wait_for_selector(".plot[aria-label*='over megabytes']")
        page.reload()  # the address keeps what was chosen
        page.wait_for_selector(".plot[aria-label*='2 runs over megabytes']")
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.locator("#theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
        process.terminate()
        page.wait_for_selector("#trouble:has-text('cannot be asked')")
        assert process.wait() == 0


def test_the_dashboard_follows_a_run_until_it_is_killed(
    browser: "Browser", runs: Path, tmp_path: Path
) -> None:
    place = tmp_path / "runs"
    run = shutil.copytree(runs / "fedavg-1", place / "fedavg-1")
    shutil.copytree(runs / "fedavg-0", place / "fedavg-0")
    change(run, status="running", results={})
    lock = hold(run)
    row = 'tr[data-run="fedavg-1"]'
    with dashboard(place) as (address, _), opened(browser, address) as page:
        page.wait_for_selector(f"{row} .status:text-is('running 2/2')")
        page.locator(f"{row} button").click()
        page.wait_for_selector("#details-heading:text-is('fedavg-1')")
        with (run / ROUNDS).open("a") as file:
            file.write("3,train,seconds,1.0\r\n3,test,accuracy,0.77\r\n4,test,acc")
        page.wait_for_selector(f"{row} .status:text-is('running 3/2')")
        page.wait_for_selector(".legend button:has-text('fedavg-1') .value:text-is('77')")
        header = ",".join(CLIENT_COLUMNS)
        (run / CLIENTS).write_text(f"{header}\n1,7,ward,failed,{ATTACK},0,0,cpu\n")
        (run / EVENTS).write_text(f"time,round,site,event\nnow,1,ward,{ATTACK}\n")
        lock.release()
        page.wait_for_selector(f"{row} .status:text-is('killed 3/2')")
        page.wait_for_selector("#details-tables h3:text-is('Sites')")
        assert page.get_by_text(ATTACK).count() >= 3
        assert page.title() == "univarfl dashboard"
        (run / "run.json").write_text("{")
        page.wait_for_selector(f"{row} .status:text-is('damaged record')")
        record(place, "new", ["engine=inprocess"], [0.1, 0.2])
        page.wait_for_selector('tr[data-run="new"]')


def test_the_report_sorts_filters_and_reads_curves(browser: "Browser", runs: Path) -> None:
    address = (runs.parent / "report" / "index.html").as_uri()
    with opened(browser, address) as page:
        headline = page.locator(".headline").first.inner_text()
        assert headline.startswith("UniVarFL +20.0 points over FedAvg")
        sort_filter_and_read(
            page, 'table[data-title="Runs"]', 3, "figure[data-chart*='Accuracy over the rounds']"
        )
        read_bars_cells_and_dots(page)
        page.evaluate(
            """() => {
              const rows = Array.from({ length: 250 }, (_, place) => [place]);
              const long = Tables.build(["place"], rows);
              long.id = "long";
              document.querySelector("main").append(long);
              Tables.enhance(long, "long");
            }"""
        )
        assert column(page, "#long", 1)[-1] == "199"
        page.get_by_role("button", name="Show all").click()
        assert column(page, "#long", 1)[-1] == "249"
        link = page.locator('table[data-title="Runs"] a').first.get_attribute("href")
        assert (runs.parent / "report" / str(link)).resolve().is_file()


def read_bars_cells_and_dots(page: "Page") -> None:
    """Point at a bar, at cells and at a dot, and reach a cell by keyboard."""
    bars = shown(page, "figure.bars")
    bars.locator("tbody tr").first.hover()
    assert "FedAvg: seed 0 50, seed 1 51" in bars.locator(".readout").inner_text()
    recall = shown(page, "figure[data-chart^='Recall']")
    recall.locator("td").nth(2).hover()
    assert recall.locator(".readout").inner_text() == "FedAvg, digit 2: 52"
    grid = shown(page, "figure[data-chart^='Loss landscape']")
    page.mouse.move(0, 0)
    assert recall.locator(".readout").inner_text() == ""
    grid.get_by_role("region").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert grid.locator(".readout").inner_text() == "13, 1: 15"
    dots = shown(page, "figure[data-chart$='by client']")
    dots.locator(".u-over").hover()
    assert dots.locator(".readout").inner_text() == "client 0"
    assert dots.locator(".legend .value").all_inner_texts() == ["2 images", "1 image"]


def shown(page: "Page", selector: str) -> "Locator":
    """Return an element that the screen shows; charts are drawn once they are seen."""
    found = page.locator(selector)
    found.scroll_into_view_if_needed()
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_can_be_read_with_a_screen_reader(
    browser: "Browser", runs: Path, scheme: str
) -> None:
    """Names, roles, structure and contrast, as far as axe-core can tell."""
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    report_page = (runs.parent / "report" / "index.html").as_uri()
    with dashboard(runs) as (address, _):
        for place in (report_page, address):
            with opened(browser, place, scheme=scheme) as page:
                page.set_viewport_size({"width": 1280, "height": 8000})  # all charts are drawn
                if place == address:
                    page.locator("#runs button.link").first.click()
                    page.wait_for_selector("#details-tables table:visible")
                page.wait_for_selector(".plot canvas")
                found = Axe().run(page)
                assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_pages_fit_a_screen_and_a_phone(browser: "Browser", runs: Path, width: int) -> None:
    address = (runs.parent / "report" / "index.html").as_uri()
    with opened(browser, address, width=width, scheme="dark") as page:
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert page.locator("img:not([alt])").count() == 0
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
        page.emulate_media(media="print")
        assert (
            page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        )
        assert not page.locator("nav").is_visible()


def test_a_broken_page_is_noticed(browser: "Browser", runs: Path, tmp_path: Path) -> None:
    whole = (runs.parent / "report" / "index.html").read_text()
    for old, new in (("Tables.enhance(table", "Tables.mend(table"), ("sha256-", "sha256-A")):
        (tmp_path / "index.html").write_text(whole.replace(old, new))
        with (
            pytest.raises(AssertionError, match=r"directive|mend"),
            opened(browser, (tmp_path / "index.html").as_uri()),
        ):
            pass
