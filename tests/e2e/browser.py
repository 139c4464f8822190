"""Which browser tests and pictures use: one that the system has, never one that is downloaded."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)
