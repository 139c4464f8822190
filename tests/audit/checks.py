"""The checks of `make audit`, as values: how a tool's answer is read. Nothing is run here.

Tools that look up advisories need a registry that serves them. One that does not is no clean bill: the check is
skipped, and says so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    FINE = "fine"
    BAD = "bad"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict
    text: str


def read_pip_audit(output: str) -> Finding:
    """pip-audit's JSON. A registry without advisories answers as if it knew none of the packages."""
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return Finding(Verdict.SKIPPED, "the registry does not answer")
    looked_up = [one for one in packages if "skip_reason" not in one]
    wrong = [
        f"{one['name']} {one['version']}: {advisory['id']}, mended in {', '.join(advisory['fix_versions']) or 'none'}"
        for one in looked_up
        for advisory in one["vulns"]
    ]
    if wrong:
        return Finding(Verdict.BAD, "\n".join(wrong))
    if not looked_up:
        return Finding(Verdict.SKIPPED, "the registry serves no advisories")
    unknown = [one["name"] for one in packages if "skip_reason" in one]
    rest = f"; not known to the registry: {', '.join(unknown)}" if unknown else ""
    return Finding(Verdict.FINE, f"{len(looked_up)} packages without advisories{rest}")


def read_npm_audit(output: str) -> Finding:
    """npm's JSON; `error` in it is the registry's."""
    try:
        answer: dict[str, Any] = json.loads(output)
        wrong = {name: one["severity"] for name, one in answer["vulnerabilities"].items()}
        count = int(answer["metadata"]["dependencies"]["total"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return Finding(Verdict.SKIPPED, "the registry does not answer, or serves no advisories")
    if wrong:
        return Finding(Verdict.BAD, "\n".join(f"{name}: {severity}" for name, severity in wrong.items()))
    return Finding(Verdict.FINE, f"{count} packages without advisories")


def read_bandit(output: str) -> Finding:
    try:
        results: list[dict[str, Any]] = json.loads(output)["results"]
    except (ValueError, KeyError, TypeError):
        return Finding(Verdict.BAD, f"bandit gave no report: {output[-500:]}")
    if not results:
        return Finding(Verdict.FINE, "nothing found")
    return Finding(
        Verdict.BAD,
        "\n".join(f"{one['filename']}:{one['line_number']}: {one['test_id']} {one['issue_text']}" for one in results),
    )


def read_materials(output: str) -> Finding:
    """A bill of materials in CycloneDX's form."""
    try:
        count = len(json.loads(output)["components"])
    except (ValueError, KeyError, TypeError):
        return Finding(Verdict.BAD, f"there is no bill of materials: {output[-500:]}")
    return Finding(Verdict.FINE, f"{count} packages")


def locked_packages(lock: str) -> list[tuple[str, str]]:
    """Names and versions in a lock file.

    >>> locked_packages("numpy==2.4.0 ; python_version < '3.12' \\\\\\n    --hash=sha256:00")
    [('numpy', '2.4.0')]
    """
    lines = [line.split()[0].partition("==") for line in lock.splitlines() if line[:1].isalnum()]
    return [(name, version) for name, _, version in lines]
