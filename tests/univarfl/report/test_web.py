"""The files that the dashboard and the report share: their colours, and where they come from."""

import hashlib
import re

import pytest

from univarfl.report.page.render import SCRIPTS, STYLES, WEB

TEXT, GRAPHIC = 4.5, 3.0  # the contrasts of WCAG 2.2, level AA
UPLOT = {
    "uplot.js": "19c8d4c6ad88929a79f4ae49d6f71615",
    "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b1",
}


def palettes() -> list[dict[str, str]]:
    """Return the colours of each theme by name, those of light and of dark twice."""
    css = (WEB / "pages.css").read_text()
    blocks = re.findall(r"color-scheme: (?:light|dark);([^}]*)}", css)
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", block)) for block in blocks]


def luminance(colour: str) -> float:
    digits = colour.removeprefix("#")
    parts = [d * 2 for d in digits] if len(digits) == 3 else re.findall("..", digits)
    shares = [int(part, 16) / 255 for part in parts]
    red, green, blue = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    ]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_curves_can_be_seen_in_every_theme() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert len(palettes()) == 4  # light, dark by the system, dark by choice, print
    for palette in palettes():
        for name in ("ink", "soft", "link"):
            for ground in ("ground", "raised"):
                assert contrast(palette[name], palette[ground]) >= TEXT, (name, ground)
        for name in [*(f"curve-{place}" for place in range(8))]:
            assert contrast(palette[name], palette["ground"]) >= GRAPHIC, name
    one, other = palettes()[1:3]
    assert one == other


def test_the_pages_load_only_files_of_the_package() -> None:
    page = (WEB / "dashboard.html").read_text()
    used = re.findall(r'(?:src|href)="web/([^"]+)"', page)
    assert set(used) <= {path.name for path in WEB.iterdir()}
    assert {*STYLES, *SCRIPTS} <= {path.name for path in WEB.iterdir()}
    for name in ("theme.js", "tables.js", "curves.js", "dashboard.js", "report.js", "pages.css"):
        text = (WEB / name).read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), name
        for risky in ("innerHTML =", "insertAdjacentHTML", "eval(", "document.write"):
            assert risky not in text, (name, risky)


def test_uplot_is_the_published_file() -> None:
    """Version 1.6.32 of the npm package uplot, dist/uPlot.iife.min.js and uPlot.min.css."""
    digests = {
        name: hashlib.sha256((WEB / name).read_bytes()).hexdigest()[:32]
        for name in ("uplot.js", "uplot.css")
    }
    assert digests == UPLOT
