"""ARCHITECTURE.md is a map of the code: every module is on it, and what it points to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_SOURCE = ROOT / "src" / "tocsin"
_PAGE = re.sub(r"^```.*?^```", "", (ROOT / "ARCHITECTURE.md").read_text(), flags=re.MULTILINE | re.DOTALL)
_LINKS = re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", _PAGE)
_PACKAGES = (
    "balancing",
    "broker",
    "client",
    "cluster",
    "coordinates",
    "coordinator",
    "dashboard",
    "filters",
    "model",
    "protocol",
    "runtime",
    "simulator",
)


@pytest.mark.parametrize("package", _PACKAGES)
def test_every_module_is_linked(package: str) -> None:
    """A newcomer finds each module of the core packages on the page, and what it is for."""
    linked = {target for _, target in _LINKS}
    modules = [
        file.relative_to(ROOT).as_posix()
        for file in sorted((_SOURCE / package).rglob("*.py"))
        if file.name != "__init__.py" and "migrations" not in file.parts
    ]
    assert modules
    assert [one for one in modules if one not in linked] == []


def test_every_link_leads_to_a_file() -> None:
    """Or to a package; and a link that names a file leads to the file of that name."""
    targets = [(label, target) for label, target in _LINKS if not target.startswith(("#", "https:"))]
    assert len(targets) > 200
    assert [target for _, target in targets if not (ROOT / target).exists()] == []
    misnamed = [
        (label, target) for label, target in targets if label.endswith(".py") and not f"/{target}".endswith(f"/{label}")
    ]
    assert misnamed == []


def test_every_link_within_the_page_leads_to_a_heading() -> None:
    """So that the three ways can be walked by clicking."""
    headings = re.findall(r"^#+ (.+)$", _PAGE, re.MULTILINE)
    anchors = {"#" + re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
    assert [target for _, target in _LINKS if target.startswith("#") and target not in anchors] == []
