"""The scorecard's page says what was done, what was not, and what was bad."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scorecard import keeping, report
from scorecard.commands import read_objects
from scorecard.row import Effort, Outcome, Result, Row


def _nothing(_effort: Effort) -> Outcome:
    return Outcome({})


ROW = Row(4, "Power cuts", "0 bad", full={"cuts": 100}, brief={"cuts": 5}, run=_nothing)
PASSED = Result(4, "7", 61.0, False, {"cuts": 100}, 0, (), {"acknowledged": 1234}, ("One machine only.",), "abc1234")


def test_a_row_that_did_all_and_found_nothing_has_passed() -> None:
    """Only the full count with nothing bad is a plain pass."""
    assert report.verdict(ROW, PASSED) == "passed"


def test_fewer_than_asked_for_is_said() -> None:
    """Whoever reads the report sees what was done less often than the row asks for."""
    fewer = replace(PASSED, counts={"cuts": 20})
    assert report.verdict(ROW, fewer) == "passed, fewer"
    assert "Fewer than asked for: 20 of 100 cuts." in report.markdown([ROW], {4: fewer}, "a machine")


def test_anything_bad_fails_the_row_and_is_listed() -> None:
    """A single bad thing is a failure, whatever the counts."""
    failed = replace(PASSED, bad=1, bad_listed=("record r7 was lost",))
    assert report.verdict(ROW, failed) == "**failed**"
    assert "record r7 was lost" in report.markdown([ROW], {4: failed}, "a machine")


def test_each_row_names_the_code_that_it_tried() -> None:
    """Rows are run on different days, so a reader sees which revision each of them speaks of."""
    assert "| 1 min 1 s | abc1234 | passed |" in report.markdown([ROW], {4: PASSED}, "a machine")


def test_a_row_that_never_ran_is_there() -> None:
    """No row is left out of the table because it was not run."""
    assert "| 4 | Power cuts | 0 bad | | | | | not run |" in report.markdown([ROW], {}, "a machine")


def test_results_are_kept(tmp_path: Path) -> None:
    """A row can be run again without the others: what those showed is read back as it was."""
    keeping.write(tmp_path, PASSED)
    keeping.write(tmp_path, replace(PASSED, number=5))
    assert keeping.read_all(tmp_path) == {4: PASSED, 5: replace(PASSED, number=5)}


def test_objects_are_found_in_what_a_command_prints() -> None:
    """Commands print one JSON object for each part, over several lines."""
    assert read_objects('{\n "a": {"b": 1}\n}\n\n{"c": 2}\n') == [{"a": {"b": 1}}, {"c": 2}]
