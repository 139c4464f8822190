"""Lints the chart, renders it for several values, and validates what comes out. Exit code 1 if something is wrong.

What the chart refuses is tried too: a chart that renders nonsense in silence is found out only when it is installed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

_ROOT = Path(__file__).parents[2]
_CHART = _ROOT / "deploy" / "helm" / "tocsin"
_TOOLS = _ROOT / ".venv-charts" / "bin"
_VALIDATE = _TOOLS / "kubernetes-validate"
#: Helm knows no cluster here to ask; the schemas are of this version too.
_KUBERNETES = "1.34.0"
_SECRET = {"existingSecret": "tocsin-tokens"}
_PUBLIC = {"enabled": True, "domain": "tocsin.example", "tlsSecret": "wildcard", "className": "nginx"}
_GOOD: dict[str, dict[str, Any]] = {
    "least": _SECRET,
    "public": _SECRET | {"ingress": _PUBLIC, "brokers": {"count": 12, "spread": "required"}},
    "watched": _SECRET | {"monitoring": {"enabled": True, "dashboard": True, "labels": {"release": "prometheus"}}},
    "open inside": _SECRET | {"networkPolicy": {"enabled": False}, "brokers": {"spread": "none"}},
    "with settings": _SECRET
    | {
        "settings": {"cluster": {"spark_driver_memory": "6g"}, "coordinator": {"open_registration": False}},
        "networkPolicy": {"publishers": [{"namespaceSelector": {"matchLabels": {"team": "stations"}}}]},
        "cluster": {"storage": {"size": "200Gi", "className": "fast"}, "nodeSelector": {"disk": "ssd"}},
    },
}
#: Values that the chart refuses, and what its message must name.
_BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no secret": ({}, "existingSecret"),
    "no domain": (_SECRET | {"ingress": {"enabled": True, "tlsSecret": "wildcard"}}, "ingress.domain"),
    "no certificate": (_SECRET | {"ingress": {"enabled": True, "domain": "tocsin.example"}}, "ingress.tlsSecret"),
    "a misspelt value": (_SECRET | {"broker": {"count": 3}}, "broker"),
    "no brokers": (_SECRET | {"brokers": {"count": 0}}, "count"),
    "an unknown process": (_SECRET | {"settings": {"brokers": {}}}, "settings"),
}
#: Kinds of the Prometheus operator: Kubernetes has no schema of them.
_FOREIGN = {"PodMonitor", "PrometheusRule"}


def main() -> int:
    helm = shutil.which("helm") or shutil.which("helm", path=str(_TOOLS))
    if helm is None or not _VALIDATE.exists():
        print("skipped  charts: helm or Kubernetes' schemas can't be installed; no registry answers, or there is no go")
        return 0
    failures = _lint(helm)
    for title, values in _GOOD.items():
        failures += [f"{title}: {one}" for one in _render(helm, values)]
    for title, (values, named) in _BAD.items():
        done = _template(helm, values)
        if done.returncode == 0:
            failures.append(f"{title}: not refused")
        elif named not in done.stderr:
            failures.append(f"{title}: the message does not name {named}: {done.stderr.strip()}")
    for one in failures:
        print(f"bad      {one}")
    print(f"{len(_GOOD) + len(_BAD) + 1 - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


def _lint(helm: str) -> list[str]:
    done = subprocess.run(
        [helm, "lint", "--strict", "--kube-version", _KUBERNETES, str(_CHART), "--set", "existingSecret=tokens"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [] if done.returncode == 0 else [f"helm lint: {done.stdout}{done.stderr}"]


def _render(helm: str, values: dict[str, Any]) -> list[str]:
    done = _template(helm, values)
    if done.returncode:
        return [done.stderr.strip()]
    manifests = [one for one in yaml.safe_load_all(done.stdout) if one]
    names = [(one["kind"], one["metadata"]["name"]) for one in manifests]
    failures = [f"{name} is there twice" for name in set(names) if names.count(name) > 1]
    own = [one for one in manifests if one["kind"] not in _FOREIGN]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rendered.yaml"
        file.write_text(yaml.safe_dump_all(own))
        command = [str(_VALIDATE), "--strict", "-k", _KUBERNETES, str(file)]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
    if checked.returncode:
        failures.append(f"{checked.stdout}{checked.stderr}".strip())
    return failures


def _template(helm: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "values.json"
        file.write_text(json.dumps(values))
        return subprocess.run(
            [
                helm,
                "template",
                "city",
                str(_CHART),
                "--namespace",
                "alerts",
                "--kube-version",
                _KUBERNETES,
                "--values",
                str(file),
            ],
            capture_output=True,
            text=True,
            check=False,
        )


if __name__ == "__main__":
    sys.exit(main())
