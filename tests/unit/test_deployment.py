"""What lies in `deploy` speaks of settings, commands and series that exist."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tocsin.settings import BrokerSettings, ClusterSettings, CoordinatorSettings, check_environment

_ROOT = Path(__file__).parents[2]
_CHART = _ROOT / "deploy" / "helm" / "tocsin"
_TEMPLATES = {file.name: file.read_text() for file in sorted((_CHART / "templates").iterdir())}
_ALERTS = yaml.safe_load((_CHART / "files" / "alerts.yaml").read_text())
_DASHBOARD = json.loads((_CHART / "files" / "dashboard.json").read_text())
_SERIES = re.compile(r"\btocsin_[a-z0-9_]+")


def documented() -> set[str]:
    page = (_ROOT / "docs" / "reference" / "metrics.md").read_text()
    listed = re.findall(r"^\| `(tocsin_\w+)` \| (\w+) \|", page, re.MULTILINE)
    parts = {f"{name}_{part}" for name, kind in listed if kind == "histogram" for part in ("bucket", "count", "sum")}
    return {name for name, _ in listed} | parts


def expressions() -> Iterator[tuple[str, str]]:
    for group in _ALERTS["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in _DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def test_alerts_and_dashboard_ask_for_series_that_exist() -> None:
    """Each series is on the page of metrics, which tests compare with what processes expose."""
    known = documented()
    asked = {series for _, expression in expressions() for series in _SERIES.findall(expression)}
    assert len(asked) > 20
    assert asked <= known, asked - known


@pytest.mark.parametrize("name", ["tocsin_feed_records_totals", "tocsin_channel_run_seconds_buckets"])
def test_a_series_that_does_not_exist_is_found(name: str) -> None:
    """The test above can fail."""
    assert name not in documented()


def test_each_alert_says_what_to_do() -> None:
    """Each has a severity, a summary and a description."""
    rules: list[dict[str, Any]] = [rule for group in _ALERTS["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in {"warning", "critical"}, rule["alert"]
        assert rule["annotations"]["summary"], rule["alert"]
        assert rule["annotations"]["description"], rule["alert"]


def test_panels_do_not_overlap() -> None:
    """No panel of the dashboard lies over another, and none reaches beyond the page's 24 columns."""
    taken: dict[tuple[int, int], str] = {}
    for panel in _DASHBOARD["panels"]:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24, panel["title"]
        for x in range(grid["x"], grid["x"] + grid["w"]):
            for y in range(grid["y"], grid["y"] + grid["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_the_chart_sets_settings_that_exist() -> None:
    """Each variable in a template is one that a process reads."""
    names = {name for text in _TEMPLATES.values() for name in re.findall(r"\bTOCSIN_[A-Z_]+", text)}
    assert len(names) > 10
    check_environment(dict.fromkeys(names, ""))


def test_pods_get_no_variables_for_services() -> None:
    """Kubernetes would set TOCSIN_CLUSTER_PORT to an address for a service called tocsin-cluster."""
    pods = [text for text in _TEMPLATES.values() if "kind: StatefulSet" in text]
    assert len(pods) == 3
    assert all('include "tocsin.pod"' in text for text in pods)
    assert "enableServiceLinks: false" in _TEMPLATES["_helpers.tpl"]


def test_the_drain_fits_into_the_grace_period() -> None:
    """The chart's default is the broker's own, and the pod is killed only after it."""
    values = yaml.safe_load((_CHART / "values.yaml").read_text())
    default = {field.name: field.default for field in dataclasses.fields(BrokerSettings)}["drain_timeout_s"]
    assert values["brokers"]["drainTimeoutSeconds"] == default
    assert (
        "terminationGracePeriodSeconds: {{ add .Values.brokers.drainTimeoutSeconds 20 }}" in _TEMPLATES["brokers.yaml"]
    )


def test_ports_are_the_defaults() -> None:
    """The chart's ports are those of the documentation."""
    for kind, name in ((ClusterSettings, "cluster"), (CoordinatorSettings, "coordinator"), (BrokerSettings, "brokers")):
        port = {field.name: field.default for field in dataclasses.fields(kind)}["port"]
        assert f"containerPort: {port}" in _TEMPLATES[f"{name}.yaml"]


def test_the_schema_has_each_value() -> None:
    """A misspelt value is refused, so the schema must know every one that there is."""
    values = yaml.safe_load((_CHART / "values.yaml").read_text())
    schema = json.loads((_CHART / "values.schema.json").read_text())
    assert schema["additionalProperties"] is False
    for name, value in values.items():
        known = schema["properties"][name]
        if isinstance(value, dict):
            assert known["additionalProperties"] is False
            assert set(value) == set(known["properties"]), name
