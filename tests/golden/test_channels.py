"""What the compiler writes, letter by letter.

Each `channels/<name>.sql` is a CREATE CHANNEL statement, `channels/<name>.out.sql` the SQL made of it. After a change
that is meant, run `pytest tests/golden --update-golden` and read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest

from tocsin.cluster.channels.compiler.compile import compile_channel
from tocsin.cluster.channels.compiler.template import RelationRole
from tocsin.cluster.channels.core.radius_classes import radius_groups
from unit.cluster.channels.emergency import DATASETS, channel, shown, shown_name

FOLDER = Path(__file__).parent / "channels"
#: The roles of relations that is_new speaks of.
_NEW = {RelationRole.NEW, RelationRole.FULL_MARKED}
CASES = sorted(path for path in FOLDER.glob("*.sql") if not path.name.endswith(".out.sql"))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_channel_compiles_to_its_golden_text(case: Path, golden: Callable[[Path, str], None]) -> None:
    """The same statement and catalogue always give the same SQL."""
    compiled = compile_channel(channel(case.read_text()), DATASETS)
    facts = f"-- reads {', '.join(compiled.datasets)}; runs over {', '.join(compiled.windows)}"
    whole = "; whole result" if {one.role for one in compiled.relations}.isdisjoint(_NEW) else ""
    golden(case.with_suffix(".out.sql"), f"{facts}{whole}\n{shown(compiled)}\n")


def test_there_are_cases() -> None:
    """All seven channels of the emergency application, and more."""
    assert len(CASES) >= 14


@pytest.mark.parametrize("name", ["emergencies_near_me", "emergencies_at_location"])
def test_different_radii_are_branches_of_one_query(name: str, golden: Callable[[Path, str], None]) -> None:
    """Two grids, and one branch for the few with huge radii, who come first in it and have no cells."""
    compiled = compile_channel(channel((FOLDER / f"{name}.sql").read_text()), DATASETS)
    (radius,) = compiled.radius_parameters
    groups = radius_groups([radius], {(256.0,): 1_000_000, (2.0**15,): 200_000, (inf,): 3}, new_rows=60)
    names = {relation: shown_name(relation) for relation in compiled.relations}
    golden(FOLDER / f"{name}.radii.out.sql", f"{compiled.render_groups(names, groups)}\n")
