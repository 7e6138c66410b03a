"""A real browser for tests of pages, and the server of a dashboard."""

import contextlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE = 30_000  # milliseconds until the browser gives up
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
chromium = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(
    chromium is None or importlib.util.find_spec("playwright") is None,
    reason="needs Chromium (apt-get install chromium) and Playwright (uv sync)",
)


@contextlib.contextmanager
def started_browser() -> Iterator["Browser"]:
    """Start Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(
    browser: "Browser",
    address: str,
    width: int = 1280,
    scheme: str = "light",
    expected: str = "no error",
) -> Iterator["Page"]:
    """Open a page, and fail at the end if it had an error or broke its own policy.

    An error that `expected` names is none.
    """
    dark = scheme == "dark"
    with browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
    ) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)

        def check() -> None:
            wrong = [error for error in errors if expected not in error]
            assert not wrong, wrong

        page.goto(address)
        check()  # scripts ran while the page loaded: a broken page never becomes ready
        try:
            page.wait_for_selector("body[data-ready]")
            yield page
        finally:
            check()


@contextlib.contextmanager
def dashboard(runs: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run ``univarfl dashboard``; yield its address and its process."""
    command = [sys.executable, "-m", "univarfl", "dashboard", str(runs), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield process.stdout.readline().strip(), process
        finally:
            process.terminate()
