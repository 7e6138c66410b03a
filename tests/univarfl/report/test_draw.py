"""Charts as pictures: no text is cut, no two texts overlap, and different names stay different."""

from collections.abc import Sequence
from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from tests.conftest import with_slow
from univarfl.report.charts.base import Bar, Bars, Cells, Plot, Series
from univarfl.report.charts.base import Figure as Numbers
from univarfl.report.charts.draw import SIZE, STYLE, drawn
from univarfl.report.charts.names import clipped, wrapped

SWEPT = [
    f"UniVarFL (energy_weight={energy}, variance_weight={variance})"
    for energy in (0.1, 0.2, 0.5, 1)
    for variance in (0, 0.5, 1)
]
HOSPITALS = [f"hospital_number_{number:02}_department_of_radiology" for number in range(12)]
DIGITS = [str(label) for label in range(10)]


def figure_of(numbers: Numbers) -> Figure:
    with mpl.rc_context(STYLE):
        figure = drawn(numbers)
        figure.draw_without_rendering()
    return figure


def long_names(count: int, length: int) -> list[str]:
    """Names that differ at both ends, with characters that Matplotlib reads as markup."""
    middle = " strategy $x_1$, 50% of _alpha_, buffer=10" * 4
    return [f"{number:02}{middle}"[: length - 3] + f" {number:02}" for number in range(count)]


def plot(names: Sequence[str], dots: bool = False) -> Plot:
    places = [0.0, 1.0, 2.0]
    series = [Series(name, at, places, [at + x for x in places]) for at, name in enumerate(names)]
    return Plot("round", "accuracy, %", series, dots=dots)


def bars(names: Sequence[str]) -> Bars:
    of = [
        Bar(name, place, [("seed 0", 50.0), ("seed 1", 60.0)]) for place, name in enumerate(names)
    ]
    return Bars("validation accuracy after the last round, %", of)


def recall(names: Sequence[str], classes: Sequence[str]) -> Cells:
    values = np.linspace(0, 100, len(names) * len(classes)).reshape(len(names), len(classes))
    return Cells("recall, %", "method", "class", names, classes, values, (0.0, 100.0))


def labels(axis: Axis) -> list[Text]:
    """The labels of the ticks that are drawn."""
    low, high = sorted(axis.get_view_interval())
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


def legend_texts(figure: Figure) -> list[Text]:
    return [text for legend in figure.legends for text in legend.get_texts()]


def words(texts: Sequence[Text]) -> list[str]:
    """The texts without line breaks and escapes."""
    return [text.get_text().replace("\n", " ").replace(r"\$", "$") for text in texts]


def cut(figure: Figure) -> list[str]:
    """The texts and line samples that are not wholly inside the picture."""
    axes = figure.axes[0]
    texts = [*labels(axes.xaxis), *labels(axes.yaxis), axes.xaxis.label, axes.yaxis.label]
    samples = [
        sample
        for legend in figure.legends
        for sample in legend.legend_handles
        if isinstance(sample, Line2D)
    ]
    width, height = figure.bbox.width, figure.bbox.height
    boxes = {
        str(each): each.get_window_extent() for each in (*texts, *legend_texts(figure), *samples)
    }
    return [
        name
        for name, box in boxes.items()
        if box.width and not (0 <= box.x0 < box.x1 <= width and 0 <= box.y0 < box.y1 <= height)
    ]


def overlapping(texts: Sequence[Text]) -> list[tuple[str, str]]:
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    return [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if one.overlaps(other)]


@pytest.mark.parametrize("length", with_slow([10, 40, 120], [40]))
@pytest.mark.parametrize("count", with_slow([3, 12, 26], [12]))
def test_names_of_any_length_are_whole(count: int, length: int) -> None:
    names = long_names(count, length)
    for chart in (plot(names), bars(names), recall(names, DIGITS), recall(names, DIGITS * 10)):
        figure = figure_of(chart)
        named = legend_texts(figure) or labels(figure.axes[0].yaxis)
        assert words(named) == names
        assert cut(figure) == []
        assert overlapping(named) == []


def test_a_legend_is_below_the_axes() -> None:
    figure = figure_of(plot(long_names(26, 120)))
    axes = figure.axes[0].get_tightbbox()
    assert axes is not None
    assert figure.legends[0].get_window_extent().y1 <= axes.y0
    assert axes.height / figure.dpi > 3


@pytest.mark.parametrize("names", [SWEPT, DIGITS, ["FedAvg", "UniVarFL (gamma=1, mu=0)", "MOON"]])
def test_rows_have_room_for_their_names(names: list[str]) -> None:
    for chart in (bars(names), recall(names, DIGITS)):
        figure = figure_of(chart)
        assert overlapping(labels(figure.axes[0].yaxis)) == []
        assert words(labels(figure.axes[0].yaxis)) == names
        assert (figure.get_figheight() > SIZE[1]) == (names == SWEPT)


def test_a_name_is_broken_between_its_words() -> None:
    figure = figure_of(bars(SWEPT))
    first = labels(figure.axes[0].yaxis)[0].get_text()
    assert first.split("\n") == ["UniVarFL", "(energy_weight=0.1,", "variance_weight=0)"]


def test_every_method_has_its_name_beside_many_classes() -> None:
    names = [f"method {number}" for number in range(26)]
    figure = figure_of(recall(names, [f"class {label}" for label in range(100)]))
    assert words(labels(figure.axes[0].yaxis)) == names
    assert overlapping(labels(figure.axes[0].yaxis)) == []


def test_names_of_columns_have_room() -> None:
    figure = figure_of(recall(SWEPT[:3], [f"abc{label}" for label in "abcdefghijkl"]))
    ends = [label.get_window_extent().x1 for label in labels(figure.axes[0].xaxis)]
    lines = [label.get_window_extent().y0 for label in labels(figure.axes[0].xaxis)]
    assert labels(figure.axes[0].xaxis)[0].get_rotation() == 60
    assert min(np.diff(ends)) * 72 / figure.dpi > 12
    assert min(lines) >= 0
    upright = figure_of(recall(SWEPT[:3], DIGITS))
    assert labels(upright.axes[0].xaxis)[0].get_rotation() == 0


def test_a_missing_row_has_no_numbers() -> None:
    chart = recall(["FedAvg", "MOON"], DIGITS)
    chart.values[1] = np.nan
    written = figure_of(chart).axes[0].texts
    assert [text.get_text() for text in written] == [f"{value:.0f}" for value in chart.values[0]]


def test_names_that_begin_with_an_underscore_are_in_the_legend() -> None:
    for dots in (False, True):
        assert words(legend_texts(figure_of(plot(["_a", "b", ""], dots)))) == ["_a", "b"]


def test_names_with_a_common_start_stay_apart() -> None:
    figure = figure_of(plot(HOSPITALS, dots=True))
    shown = words(legend_texts(figure))
    assert len(set(shown)) == 12
    assert shown[3] == "hospi…03_depart…"
    assert cut(figure) == []
    columns = labels(figure_of(recall(["FedAvg", "MOON"], HOSPITALS)).axes[0].xaxis)
    assert words(columns) == shown


def test_clipped_names_keep_what_tells_them_apart() -> None:
    assert clipped(["short", "a very long name"], 10) == ["short", "a very lo…"]
    assert clipped(["a long name 1", "a long name 2"], 10) == ["a l…name 1", "a l…name 2"]
    assert clipped(["equal equal equal"] * 2, 10) == ["equal equ…"] * 2
    two = [f"photo_of_city_{city}_{time}" for city in "AB" for time in ("summer", "winter")]
    assert len(set(clipped(two, 12))) == 4
    assert max(map(len, clipped(two, 12))) == 12


def test_a_long_word_is_broken_after_a_mark_and_else_anywhere() -> None:
    assert wrapped("a, b_c", lambda line: len(line) <= 2) == ["a,", "b_", "c"]
    assert wrapped("abcde  f\ng", lambda line: len(line) <= 3) == ["abc", "de", "f g"]
    assert wrapped("", bool) == []
