"""How answers look in a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tocsin.cli import terminal
from tocsin.cli.connecting import describe_failure

COLUMNS = ["channel", "kind", "period_s", "parameters", "is_paused", "pause_reason", "subscriptions", "failed"]
ROW = ["DelaysOnMyLine", "CONTINUOUS", None, "line STRING, min_delay_s INT MAX 36000", False, "", 12, 0]


def printed(monkeypatch: pytest.MonkeyPatch, columns: list[str], rows: list[list[object]], *, is_terminal: bool) -> str:
    to = io.StringIO()
    console = Console(file=to, width=80, force_terminal=is_terminal, color_system=None, highlight=False)
    monkeypatch.setattr(terminal, "out", console)
    terminal.print_rows(columns, rows)
    return to.getvalue()


def test_a_table_that_is_too_wide_becomes_a_block_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns every name and value can be read whole."""
    shown = printed(monkeypatch, COLUMNS, [ROW, ROW], is_terminal=True)
    assert max(map(len, shown.splitlines())) <= 80
    for word in (*COLUMNS, "DelaysOnMyLine", "line STRING, min_delay_s INT MAX 36000", "row 2"):
        assert word in shown


def test_a_table_that_fits_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line for each row; what looks like markup is shown as it is."""
    shown = printed(monkeypatch, ["a", "b"], [["[red]x", 1]], is_terminal=True)
    assert len(shown.splitlines()) == 3
    assert "[red]x" in shown


def test_a_pipe_gets_whole_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes to a file has no width: a row is a line, and nothing is cut."""
    lines = printed(monkeypatch, COLUMNS, [ROW], is_terminal=False).splitlines()
    assert len(lines) == 3
    assert "line STRING, min_delay_s INT MAX 36000" in lines[2]


def test_a_script_that_failed_says_what_it_did() -> None:
    """What was carried out, which statement failed at which line, and then why."""
    done = ["active dataset A created", "feed f created"]
    shown = describe_failure("no dataset", {"statement": 3, "statements": 5, "line": 7, "done": done})
    assert shown.splitlines() == [
        "statement 1 of 5: active dataset A created",
        "statement 2 of 5: feed f created",
        "statement 3 of 5, at line 7, failed; the statements after it were not carried out:",
        "no dataset",
    ]
    shown = describe_failure("wrong", {"statement": 2, "statements": 2, "line": 3, "done": []})
    assert shown.splitlines() == ["nothing was carried out", "statement 2 of 2, at line 3, failed:", "wrong"]
