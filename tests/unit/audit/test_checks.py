"""`make audit`: what is known to be bad fails it, and a registry that tells nothing is not taken for good news."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from audit.checks import Verdict, locked_packages, read_bandit, read_materials, read_npm_audit, read_pip_audit
from documentation import ROOT

_ADVISORY = {"id": "PYSEC-1", "fix_versions": ["1.2"]}
_CLEAN = {"name": "a", "version": "1.1", "vulns": []}
_UNKNOWN = {"name": "b", "skip_reason": "Dependency not found on PyPI and could not be audited: b (1)"}


def test_an_advisory_fails_the_audit() -> None:
    """It is named with the version that mends it."""
    found = read_pip_audit(json.dumps({"dependencies": [{**_CLEAN, "vulns": [_ADVISORY]}, _UNKNOWN]}))
    assert (found.verdict, found.text) == (Verdict.BAD, "a 1.1: PYSEC-1, mended in 1.2")
    npm = {"vulnerabilities": {"left-pad": {"severity": "high"}}, "metadata": {"dependencies": {"total": 3}}}
    assert read_npm_audit(json.dumps(npm)).verdict is Verdict.BAD
    issue = {"filename": "x.py", "line_number": 3, "test_id": "B602", "issue_text": "shell"}
    assert read_bandit(json.dumps({"results": [issue]})).text == "x.py:3: B602 shell"


def test_nothing_found_is_fine() -> None:
    """With what was looked at."""
    assert read_pip_audit(json.dumps({"dependencies": [_CLEAN, _UNKNOWN]})).text == (
        "1 packages without advisories; not known to the registry: b"
    )
    npm = {"vulnerabilities": {}, "metadata": {"dependencies": {"total": 3}}}
    assert read_npm_audit(json.dumps(npm)).verdict is Verdict.FINE
    assert read_bandit('{"results": []}').verdict is Verdict.FINE
    assert read_materials('{"components": [{}]}').text == "1 packages"


@pytest.mark.parametrize("answer", ["", "<html>", "{}", "[]", "null", '{"error": {"code": "ENOAUDIT"}}'])
def test_a_registry_that_does_not_answer_is_said(answer: str) -> None:
    """Skipped, never fine. Tools that need no registry have no such excuse."""
    assert read_pip_audit(answer).verdict is Verdict.SKIPPED
    assert read_npm_audit(answer).verdict is Verdict.SKIPPED
    assert read_bandit(answer).verdict is Verdict.BAD
    assert read_materials(answer).verdict is Verdict.BAD


def test_a_registry_without_advisories_is_not_taken_for_good_news() -> None:
    """It answers as if it knew none of the packages."""
    assert read_pip_audit(json.dumps({"dependencies": [_UNKNOWN, _UNKNOWN]})).verdict is Verdict.SKIPPED


@pytest.mark.parametrize("lock", sorted(ROOT.glob("requirements*.lock")), ids=lambda path: path.name)
def test_locks_pin_every_package_and_name_no_registry(lock: Path) -> None:
    """With hashes, and so that each machine asks the registry that it is set up for."""
    text = lock.read_text()
    assert locked_packages(text)
    assert all(version for _, version in locked_packages(text))
    assert text.count("--hash=sha256:") >= len(locked_packages(text))
    assert "://" not in text
    assert "--index" not in text


def test_the_page_is_locked_without_a_registry() -> None:
    """With checksums alone."""
    packages = json.loads((ROOT / "dashboard" / "package-lock.json").read_text())["packages"]
    assert not any("resolved" in one for one in packages.values())
    assert all("integrity" in one for name, one in packages.items() if name)


def test_the_licence_is_the_one_that_is_stated() -> None:
    """Apache-2.0, in the package's metadata, in full beside it, and for the page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text()
    assert json.loads((ROOT / "dashboard" / "package.json").read_text())["license"] == "Apache-2.0"


def test_who_finds_a_hole_is_told_where_to_go() -> None:
    """And the audit is part of what every change must pass."""
    assert "privately" in (ROOT / "SECURITY.md").read_text()
    assert "make audit" in (ROOT / ".ci" / "run").read_text()
