"""Scripts: what failed, where in the file, and what was done before."""

from __future__ import annotations

import re

import pytest

from tocsin.cluster.channels.compiler.compile import compile_channel
from tocsin.cluster.channels.compiler.scripts import read_script
from tocsin.cluster.channels.compiler.statements import CreateChannel
from tocsin.errors import NotFound, ScriptProgress, StatementError
from unit.cluster.channels.emergency import DATASETS

SCRIPT = """-- the channels
SHOW FEEDS;

CREATE CONTINUOUS CHANNEL C (etype STRING) AS
  SELECT r.id
  FROM EmergencyReports r
  WHERE is_new(r) AND r.typ = :etype;
SHOW CHANNELS"""


def test_an_error_inside_a_query_is_placed_in_the_file() -> None:
    """Line and column count from the script's beginning, and the caret stands below the mistake."""
    script = read_script(SCRIPT)
    statement = script.statements[1].statement
    assert isinstance(statement, CreateChannel)
    with pytest.raises(StatementError) as refused:
        compile_channel(statement.channel, DATASETS)
    script.locate(refused.value, 1, ["0 feeds"])
    assert (refused.value.line, refused.value.column) == (7, 23)
    assert refused.value.script == ScriptProgress(2, 3, 4, ("0 feeds",))
    message, shown, caret = refused.value.pointed().splitlines()
    assert message.startswith("line 7, column 23: r has no column typ")
    assert shown[caret.index("^") :].startswith("r.typ")


def test_a_parameter_that_is_not_used_is_pointed_at() -> None:
    """Where it is declared, for the query has no place for it."""
    script = read_script("SHOW FEEDS;\nCREATE CONTINUOUS CHANNEL C (etype STRING, n INT) AS\n  SELECT 1")
    error = StatementError("the parameter n is not used", text="SELECT 1", about="n")
    script.locate(error, 1, ["0 feeds"])
    assert (error.line, error.column) == (2, 44)


@pytest.mark.parametrize(
    ("keys", "column", "reason"),
    [
        ("r.typ", 54, "r has no column typ"),
        ("r.id, q.id", 60, "unknown relation q"),
        ("r.id, now()", 60, "now"),
        ("r.id AS k", 54, "without AS"),
        ("r.*", 54, "without AS and *"),
        ("(SELECT 1)", 62, "no subquery"),
        ("is_new(r)", 54, "is_new belongs into the query"),
        ("r.id FROM EmergencyReports r", 54, "ONCE PER takes expressions"),
        ("r.id, :typ", 60, "unknown parameter :typ"),
    ],
)
def test_an_error_in_a_key_is_placed_in_the_file(keys: str, column: int, reason: str) -> None:
    """Where the key is, not in the query, which comes later."""
    text = f"CREATE CONTINUOUS CHANNEL C (etype STRING) ONCE PER ({keys}) WITHIN 1 DAY AS\n  SELECT r.x"
    script = read_script(f"{text} FROM EmergencyReports r WHERE is_new(r) AND r.etype = :etype")
    statement = script.statements[0].statement
    assert isinstance(statement, CreateChannel)
    with pytest.raises(StatementError, match=re.escape(reason)) as refused:
        compile_channel(statement.channel, DATASETS)
    script.locate(refused.value, 0, [])
    assert (refused.value.line, refused.value.column) == (1, column)


def test_any_error_says_which_statement_failed() -> None:
    """Also one that has no place of its own: the line of its statement, and what those before it did."""
    error = NotFound("no channel called C")
    read_script(SCRIPT).locate(error, 2, ["0 feeds", "channel created"])
    wire = error.to_wire()["error"]["script"]
    assert wire == {"statement": 3, "statements": 3, "line": 8, "done": ("0 feeds", "channel created")}


def test_a_script_that_cant_be_read_is_not_begun() -> None:
    """All statements are read first: a mistake in the last one changes nothing."""
    with pytest.raises(StatementError) as refused:
        read_script("SHOW FEEDS;\nSHOW CHANNELS;\nCREATE VIEW v AS SELECT 1")
    assert refused.value.script == ScriptProgress(3, 3, 3, ())


def test_one_statement_alone_has_no_progress_to_tell() -> None:
    """There is nothing it could be mixed up with."""
    error = NotFound("x")
    read_script("SHOW FEEDS").locate(error, 0, [])
    assert "script" not in error.to_wire()["error"]


@pytest.mark.parametrize("column", [1, 40, 75, 120, 300])
def test_the_caret_stays_at_its_place_in_long_lines(column: int) -> None:
    """A line of more than 80 columns would wrap; only a part of it is shown, with the mistake in it."""
    text = "".join(chr(ord("a") + at % 26) for at in range(column - 1)) + "X" + "y" * (300 - column)
    pointed = StatementError("wrong", text=text, line=1, column=column).pointed()
    _, shown, caret = pointed.splitlines()
    assert max(map(len, pointed.splitlines())) <= 80
    assert shown[caret.index("^")] == "X"


def test_a_tab_does_not_move_the_caret() -> None:
    """It is shown as one blank, as wide as it is counted."""
    _, shown, caret = StatementError("wrong", text="\t\tX", line=1, column=3).pointed().splitlines()
    assert shown[caret.index("^")] == "X"
