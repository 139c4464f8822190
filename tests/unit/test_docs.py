"""What the documentation shows is true: doctests run, SQL parses, Python blocks run, links lead somewhere.

In Markdown, a block that begins with

* ```` ```sql ```` must parse as Tocsin statements, unless marked ```` ```sql fragment ````;
* ```` ```python ```` must compile, and is run if marked ```` ```python run ````.

What is typed into terminals is tried in tests/e2e; `documentation.py` lists all marks.
"""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import tocsin
from documentation import FENCE, PAGES, ROOT, Block, blocks

SOURCE = Path(tocsin.__file__).parent

LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def modules_with_doctests() -> list[str]:
    return [
        ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        for file in sorted(SOURCE.rglob("*.py"))
        if ">>>" in file.read_text()
    ]


@pytest.mark.parametrize("module", modules_with_doctests())
def test_doctests(module: str) -> None:
    """Every example in a docstring gives what it says."""
    outcome = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0


@pytest.mark.parametrize("block", blocks("sql"), ids=str)
def test_sql_parses(block: Block) -> None:
    """Every statement that the documentation shows is one that Tocsin takes."""
    scripts = importlib.import_module("tocsin.cluster.channels.compiler.scripts")
    if "fragment" not in block.marks:
        assert scripts.read_script(block.text).statements


def test_python_runs() -> None:
    """Every Python block compiles, and those marked so run."""
    for block in blocks("python"):
        code = compile("\n" * block.line + block.text, str(block.page), "exec")
        if "run" in block.marks:
            exec(code, {"__name__": "__main__"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file of the project names one that is there."""
    targets = [match["target"].partition("#")[0] for match in LINK.finditer(FENCE.sub("", page.read_text()))]
    missing = [target for target in targets if target and "://" not in target and not (page.parent / target).exists()]
    assert missing == []
