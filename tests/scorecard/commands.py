"""Rows that another command of the tests carries out: run it, and read the JSON objects that it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from own_modules import knowing_tests


def run_json(module: str, *options: str) -> list[dict[str, Any]]:
    """The JSON objects that `python -m module` prints; what it says to standard error is passed on."""
    done = subprocess.run(
        [sys.executable, "-m", module, *options],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=knowing_tests(os.environ),
    )
    found = read_objects(done.stdout)
    if not found:
        raise RuntimeError(f"{module} {' '.join(options)} ended with {done.returncode} and printed no figures")
    return found


def read_objects(text: str) -> list[dict[str, Any]]:
    """All JSON objects in a text, one after the other, whatever white space is between them.

    >>> read_objects('{"a": 1}' + chr(10) + ' {"b": 2}')
    [{'a': 1}, {'b': 2}]
    """
    decoder, found, at = json.JSONDecoder(), [], 0
    while (begin := text.find("{", at)) >= 0:
        one, at = decoder.raw_decode(text, begin)
        found.append(one)
    return found
