"""The documentation's state diagrams are what the machines' tables say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from diagrams import move_diagram, session_diagram
from documentation import FENCE, ROOT

_PAGE = ROOT / "docs" / "explanation" / "lives.md"


@pytest.mark.parametrize(("name", "draw"), [("session", session_diagram), ("move", move_diagram)])
def test_the_docs_show_the_table(name: str, draw: Callable[[], str], request: pytest.FixtureRequest) -> None:
    """Each diagram of the page equals what its table gives; with --update-golden, the page is made to."""
    text = _PAGE.read_text()
    (shown,) = [one for one in FENCE.finditer(text) if one["info"].split() == ["mermaid", name]]
    if request.config.getoption("--update-golden"):
        _PAGE.write_text(text[: shown.start("text")] + draw() + text[shown.end("text") :])
        return
    assert shown["text"] == draw(), f"{_PAGE} differs from the table: run with --update-golden, and read the page"
