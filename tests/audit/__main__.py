"""Runs the tools of `make audit` and writes the bills of materials into `build`. Exit code 1 if something is bad."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from audit.checks import Finding, Verdict, read_bandit, read_materials, read_npm_audit, read_pip_audit

_ROOT = Path(__file__).parents[2]
_TOOLS = _ROOT / ".venv-audit" / "bin"
_BUILD = _ROOT / "build"
_LOCKS = ("requirements.lock", "requirements-build.lock", "requirements-audit.lock")
#: A registry that has not answered by then does not answer.
_TIMEOUT_S = 300


def _run(command: list[str], folder: Path = _ROOT) -> str:
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        ).stdout
    except subprocess.TimeoutExpired:
        return ""


def _tool(name: str) -> str:
    return str(_TOOLS / name)


def _pip_audit(lock: str) -> Callable[[], Finding]:
    options = ["--disable-pip", "--no-deps", "--progress-spinner", "off", "--format", "json"]
    return lambda: read_pip_audit(_run([_tool("pip-audit"), "-r", lock, *options]))


def _bandit() -> Finding:
    return read_bandit(_run([_tool("bandit"), "-q", "-c", "pyproject.toml", "-r", "src", "-f", "json"]))


def _npm(*arguments: str) -> str | None:
    """None where there is no npm: the dashboard's page is built already."""
    return None if shutil.which("npm") is None else _run(["npm", *arguments], _ROOT / "dashboard")


def _npm_audit() -> Finding:
    output = _npm("audit", "--json")
    return Finding(Verdict.SKIPPED, "npm is not installed") if output is None else read_npm_audit(output)


def _python_materials() -> Finding:
    return _kept("sbom-python.json", _run([_tool("cyclonedx-py"), "requirements", "requirements.lock", "--of", "JSON"]))


def _dashboard_materials() -> Finding:
    output = _npm("sbom", "--sbom-format", "cyclonedx", "--package-lock-only")
    return Finding(Verdict.SKIPPED, "npm is not installed") if output is None else _kept("sbom-dashboard.json", output)


def _kept(name: str, bill: str) -> Finding:
    found = read_materials(bill)
    if found.verdict is Verdict.FINE:
        _BUILD.mkdir(exist_ok=True)
        (_BUILD / name).write_text(bill)
        return Finding(found.verdict, f"{found.text}, in build/{name}")
    return found


def main() -> int:
    checks: dict[str, Callable[[], Finding]] = {
        **{f"pip-audit of {lock}": _pip_audit(lock) for lock in _LOCKS},
        "npm audit": _npm_audit,
        "bandit": _bandit,
        "bill of materials, Python": _python_materials,
        "bill of materials, dashboard": _dashboard_materials,
    }
    is_bad = False
    for name, check in checks.items():
        found = check()
        is_bad |= found.verdict is Verdict.BAD
        print(f"{found.verdict:<8} {name}: {found.text}", flush=True)
    return int(is_bad)


sys.exit(main())
