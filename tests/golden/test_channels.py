"""What the compiler writes, letter by letter.

Each `channels/<name>.sql` is a CREATE CHANNEL statement, `channels/<name>.out.sql` the SQL made of it. After a change
that is meant, run `pytest tests/golden --update-golden` and read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin.cluster.channels.compile import compile_channel
from unit.cluster.channels.emergency import DATASETS, channel, shown

FOLDER = Path(__file__).parent / "channels"
CASES = sorted(path for path in FOLDER.glob("*.sql") if not path.name.endswith(".out.sql"))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_channel_compiles_to_its_golden_text(case: Path, golden: Callable[[Path, str], None]) -> None:
    """The same statement and catalogue always give the same SQL."""
    compiled = compile_channel(channel(case.read_text()), DATASETS)
    facts = f"-- reads {', '.join(compiled.datasets)}; runs over {', '.join(compiled.windows)}"
    whole = "; whole result" if compiled.full_result else ""
    golden(case.with_suffix(".out.sql"), f"{facts}{whole}\n{shown(compiled)}\n")


def test_there_are_cases() -> None:
    """All seven channels of the emergency application, and more."""
    assert len(CASES) >= 14
