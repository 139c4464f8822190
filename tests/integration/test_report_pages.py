"""The pages of reports, as a browser shows them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from e2e.browser import find_browser
from tocsin.lab.experiments.debs19.claims import CLAIMS
from tocsin.lab.experiments.debs19.report import write_report
from tocsin.lab.experiments.debs19.sweeps import SWEEPS, sweep_up
from tocsin.lab.experiments.debs19.variants import VARIANTS
from tocsin.simulator.outputs import write_outputs
from unit.lab.experiments.test_debs19 import run
from unit.simulator.test_outputs import evened, uneven

pytestmark = pytest.mark.shell

#: Everything that is wider than the box it is in, or ends right of the window.
_CUT = """
() => [...document.querySelectorAll('body, .wide, table, figure, p, summary')]
  .filter((one) => one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().right > innerWidth)
  .map((one) => `${one.tagName} ${one.scrollWidth} > ${one.clientWidth}: ${one.textContent.slice(0, 80)}`)
"""


def test_reports_are_not_cut_on_a_small_screen(tmp_path: Path) -> None:
    """All of a report's tables and pictures can be read at 1280 pixels and fewer, without scrolling sideways."""
    if (browser_path := find_browser()) is None:
        pytest.skip("no browser is installed")
    runs = {name: run(0.1, moved=[5]) for name in VARIANTS}
    findings = [claim.find(runs, runs) for claim in CLAIMS]
    swept = [sweep_up(one, [{two.name: run(0.1, moved=[5]) for two in one.variants()}] * 2) for one in SWEEPS]
    pages = [
        write_report(findings, swept, {1: runs, 2: runs}, "tocsin reproduce debs19 --out DIR", tmp_path / "debs19")[1],
        write_outputs([uneven(), evened()], tmp_path / "simulated")[2],
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page()
        for file, width in product(pages, (1280, 1024)):
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(file.as_uri())
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
            assert page.evaluate(_CUT) == [], (file, width)
        browser.close()
