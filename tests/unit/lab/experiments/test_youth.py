"""Telling whether a report would be made again by the code as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tocsin.lab.experiments.youth import Youth, code_of, fingerprint

_PACKAGES = ("model", "simulator/presets")


def test_comments_docstrings_and_layout_do_not_make_a_report_old() -> None:
    before = 'def double(x: int) -> int:\n    """Twice."""\n    return x * 2  # Why not?\n'
    after = '"""A module."""\n\n\ndef double(\n    x: int,\n) -> int:\n    return x*2\n'
    assert code_of(before) == code_of(after)
    assert code_of(before) != code_of(before.replace("2", "3"))
    assert code_of('class A:\n    """Empty."""') == code_of("class A:\n    pass")


def test_the_fingerprint_is_of_the_packages_that_are_named() -> None:
    assert fingerprint(_PACKAGES) == fingerprint(_PACKAGES)
    assert fingerprint(_PACKAGES) != fingerprint(("model",))
    assert fingerprint(("simulator/presets",)) != fingerprint(())


def test_a_report_is_young_if_the_code_is_the_same() -> None:
    """Then its probe is not even made."""

    def fails() -> dict[str, dict[str, float]]:
        pytest.fail("nobody needs the probe")

    made = Youth(_PACKAGES, lambda: {"run": {"cov": 0.1}}).mark()
    assert Youth(_PACKAGES, fails).is_young(made)


def test_a_report_stays_young_if_other_code_gives_the_same_figures() -> None:
    """Most of the code has nothing to do with the figures; a probe tells."""
    made = Youth(_PACKAGES, lambda: {"run": {"cov": 0.1}}).mark()
    changed = ("model",)
    assert Youth(changed, lambda: {"run": {"cov": 0.1}}).is_young(made)
    assert not Youth(changed, lambda: {"run": {"cov": 0.2}}).is_young(made)


def test_a_report_without_a_probe_or_a_mark_is_old_after_any_change() -> None:
    made = Youth(_PACKAGES).mark()
    assert Youth(_PACKAGES).is_young(made)
    assert not Youth(("model",)).is_young(made)
    assert not Youth(_PACKAGES).is_young({})


def test_a_confirmed_report_needs_its_probe_no_more(tmp_path: Path) -> None:
    """The code has changed and the figures have not: that is written down, and nothing else changes."""
    file = tmp_path / "claims.json"
    made = Youth(_PACKAGES, lambda: {"run": {"cov": 0.1}}).mark()
    file.write_text(json.dumps({"claims": [1], "made_by": made}))
    assert not Youth(("model",), lambda: {"run": {"cov": 0.2}}).confirm(file)
    assert json.loads(file.read_text())["made_by"] == made
    assert Youth(("model",), lambda: {"run": {"cov": 0.1}}).confirm(file)
    document = json.loads(file.read_text())
    assert document == {"claims": [1], "made_by": {**made, "confirmed": fingerprint(("model",))}}
    assert Youth(("model",), lambda: pytest.fail("nobody needs the probe")).is_young(document["made_by"])
