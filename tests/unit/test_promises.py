"""Every test says what it promises."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from documentation import ROOT

_TESTS = ROOT / "tests"
#: A name of so many words is a sentence, and may say everything; a shorter one needs a docstring that does.
_WORDS = 7


def _tests() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted(_TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield f"{path.relative_to(_TESTS)}::{node.name}", node


def _words(text: str) -> list[str]:
    return "".join(letter if letter.isalnum() else " " for letter in text.lower()).split()


def test_each_test_has_a_docstring_or_a_name_that_is_a_sentence() -> None:
    """A docstring states the promise; it may be left out where the name has seven words or more."""
    unsaid = [
        where
        for where, test in _tests()
        if not ast.get_docstring(test) and len(_words(test.name.removeprefix("test_"))) < _WORDS
    ]
    assert not unsaid


def test_no_docstring_repeats_the_name() -> None:
    """It says more, or it is left out."""
    repeated = [
        where
        for where, test in _tests()
        if _words(ast.get_docstring(test) or "") == _words(test.name.removeprefix("test_"))
    ]
    assert not repeated
