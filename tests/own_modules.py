"""Processes that run modules of the tests, whoever started the tests and from where."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).resolve().parent


def knowing_tests(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which Python finds the tests' modules too.

    >>> knowing_tests({"PYTHONPATH": "/elsewhere"})["PYTHONPATH"].split(os.pathsep)[1:]
    ['/elsewhere']
    """
    path = os.pathsep.join(filter(None, (str(TESTS), environment.get("PYTHONPATH"))))
    return {**environment, "PYTHONPATH": path}
