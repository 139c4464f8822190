"""The documentation's pictures of the dashboard, taken anew: `make screenshots`. Takes about three minutes."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from e2e.browser import find_browser
from e2e.town import API_TOKEN, Town, running_town

_IMAGES = Path(__file__).parents[2] / "docs" / "images"
_DESKTOP: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
_PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 1.5,
    "is_mobile": True,
    "has_touch": True,
}


def main() -> None:
    executable = find_browser()
    if executable is None:
        sys.exit("no browser is installed; on Debian: apt-get install chromium")
    _IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_town(Path(folder), brokers=5, people=300, rates_window_s=15) as town,
        town.busy(4),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            _take(browser, town)
        finally:
            browser.close()


def _take(browser: Browser, town: Town) -> None:
    light = _signed_in(browser, town, color_scheme="light", **_DESKTOP)
    dark = _signed_in(browser, town, color_scheme="dark", **_DESKTOP)
    phone = _signed_in(browser, town, color_scheme="dark", **_PHONE)
    time.sleep(50)  # So that charts have something to show.

    light.goto(f"{town.url}/dashboard/#/balancing")
    light.get_by_label("Most moves").first.fill("40")
    light.get_by_role("button", name="Preview a plan").click()
    light.locator("[data-plan]").wait_for(timeout=60_000)
    light.screenshot(path=_IMAGES / "dashboard-plan.png")
    light.get_by_role("button", name="Carry out").click()
    light.get_by_role("dialog").get_by_role("button", name="Carry it out").click()
    time.sleep(25)

    dark.goto(f"{town.url}/dashboard/#/map")
    time.sleep(6)
    town.change(
        "PUT",
        "/v1/balancing",
        {"automatic": True, "hits": 1, "shuffle_hits": 1, "every_s": 1, "rest_s": 0, "settle_s": 15},
    )
    dark.locator(".state .running").wait_for(timeout=60_000)
    time.sleep(2.2)  # Some have moved, and the rings around them have not faded yet.
    dark.screenshot(path=_IMAGES / "dashboard-map.png")
    time.sleep(12)
    town.change("PUT", "/v1/brokers/broker-5/state", {"state": "draining", "by": "ada"})
    time.sleep(12)
    town.change("PUT", "/v1/brokers/broker-5/state", {"state": "active", "by": "ada"})
    time.sleep(45)  # It idles, and is given people once things have settled.

    light.goto(f"{town.url}/dashboard/#/overview")
    time.sleep(3)
    light.screenshot(path=_IMAGES / "dashboard-overview.png", full_page=True)
    phone.goto(f"{town.url}/dashboard/#/overview")
    time.sleep(3)
    phone.screenshot(path=_IMAGES / "dashboard-phone.png")
    for file in sorted(_IMAGES.glob("dashboard-*.png")):
        _shrink(file)
        print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")


def _shrink(file: Path) -> None:
    """256 colours are enough for a page, and a third of the bytes."""
    with Image.open(file) as picture:
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(file, optimize=True)


def _signed_in(browser: Browser, town: Town, **options: Any) -> Page:
    page = browser.new_context(**options).new_page()
    page.goto(f"{town.url}/")
    page.get_by_label("Token").fill(API_TOKEN)
    page.get_by_label("Your name").fill("ada")
    page.get_by_role("button", name="Sign in").click()
    page.locator("[data-chart]").first.wait_for()
    return page


if __name__ == "__main__":
    main()
