"""Committed reports are young: the code that is here would make them again. One that is not says so on its page."""

from __future__ import annotations

import json
from typing import Any

import pytest

from documentation import ROOT
from scorecard import keeping, report
from scorecard.rows import ROWS
from tocsin.lab.experiments import million
from tocsin.lab.experiments.debs19 import probe as debs19
from tocsin.lab.experiments.prototype import report as prototype_report

_REPORTS = ROOT / "docs" / "reports"
#: Its rows are run one by one, and each names the revision that it was run with.
_SCORECARD = _REPORTS / "reliability"
_KEPT = sorted(one.name for one in _REPORTS.iterdir() if one.is_dir() and one != _SCORECARD)
_YOUTHS = {"city-million": million.YOUTH, "debs19": debs19.YOUTH, "prototype": prototype_report.YOUTH}
#: Reports that take hours and a quiet machine: they may be old, if readers are told.
_MAY_BE_OLD = {"prototype"}
_OLD = "This report was made by an earlier revision"


def made_by(name: str) -> dict[str, Any]:
    mark: dict[str, Any] = json.loads((_REPORTS / name / "claims.json").read_text()).get("made_by", {})
    return mark


def test_every_report_has_somebody_who_tells_its_age() -> None:
    assert set(_KEPT) <= set(_YOUTHS)


@pytest.mark.parametrize("name", _KEPT)
def test_a_report_is_young_or_says_that_it_is_not(name: str) -> None:
    """After a change that alters figures, make the report anew with the command that is on its page."""
    is_young = _YOUTHS[name].is_young(made_by(name))
    says_old = _OLD in (_REPORTS / name / "report.md").read_text()
    assert is_young or name in _MAY_BE_OLD, f"docs/reports/{name} is old: make it anew with the command on its page"
    assert is_young != says_old, f"docs/reports/{name} is {'young' if is_young else 'old'}, and its page says otherwise"


def test_the_scorecards_page_says_what_its_rows_say() -> None:
    """Nobody edits the page by hand, and no row is kept that the page leaves out."""
    page = (_SCORECARD / "report.md").read_text()
    machine = page.partition("\nMachine: ")[2].partition(".\n")[0]
    assert machine
    assert page == report.markdown(ROWS, keeping.read_all(_SCORECARD), machine)


def test_kept_rows_of_the_scorecard_were_run_with_a_known_revision_and_in_full() -> None:
    """A row of files that nobody committed, or of the brief form, proves nothing to a reader."""
    for result in keeping.read_all(_SCORECARD).values():
        assert result.revision != "unknown", f"row {result.number}"
        assert not result.revision.endswith("+"), f"row {result.number}: files had changed since {result.revision}"
        assert not result.is_brief, f"row {result.number}"
