"""`is_new(a) OR is_new(b)` with ONCE PER. That the rows are the same, tests/property/test_set_oriented.py shows."""

from __future__ import annotations

import pytest

from tocsin.cluster.channels.compiler.compile import CompiledChannel, compile_channel
from tocsin.cluster.channels.compiler.template import RelationRole
from unit.cluster.channels.emergency import DATASETS, channel

_FROM = "FROM EmergencyReports r JOIN UserLocations u ON u.user_id = :me"
_EITHER = "(is_new(r) OR is_new(u))"


def _compiled(body: str, once: str = "ONCE PER (r.id)") -> CompiledChannel:
    return compile_channel(channel(f"CREATE CONTINUOUS CHANNEL C (me STRING) {once} AS {body}"), DATASETS)


def _roles(compiled: CompiledChannel) -> set[str]:
    return {f"{one.role} {one.dataset}" for one in compiled.relations if one.role is not RelationRole.SUBSCRIPTIONS}


def test_only_new_rows_of_one_relation_are_read_at_a_time() -> None:
    """A branch for each; both datasets are watched."""
    compiled = _compiled(f"SELECT r.id {_FROM} WHERE {_EITHER} AND r.x > u.x")
    assert _roles(compiled) == {f"{role} {name}" for role in ("NEW", "FULL") for name in compiled.datasets}
    assert compiled.windows == ("EmergencyReports", "UserLocations")


@pytest.mark.parametrize(
    "body",
    [
        f"SELECT r.id, count(*) AS n {_FROM} WHERE {_EITHER} GROUP BY r.id",
        f"SELECT DISTINCT r.id {_FROM} WHERE {_EITHER}",
        f"SELECT r.id {_FROM} WHERE {_EITHER} ORDER BY r.x LIMIT 3",
        f"SELECT r.id, rank() OVER (ORDER BY r.x) AS n {_FROM} WHERE {_EITHER}",
        f"SELECT r.id {_FROM} WHERE is_new(r) OR is_new(u) OR r.x > u.x",
        f"SELECT r.id {_FROM} WHERE NOT {_EITHER}",
    ],
)
def test_rows_that_depend_on_each_other_are_found_by_one_query(body: str) -> None:
    """Each branch would see a part of them. So is a condition that is more than the two."""
    key = "id" if "DISTINCT" in body else "r.id"
    assert _roles(_compiled(body, f"ONCE PER ({key})")) == {
        "FULL_MARKED EmergencyReports",
        "FULL_MARKED UserLocations",
    }


def test_without_once_per_a_pair_of_two_new_rows_must_be_found_once() -> None:
    """So nothing is split."""
    compiled = _compiled(f"SELECT r.id {_FROM} WHERE {_EITHER}", once="")
    assert _roles(compiled) == {"FULL_MARKED EmergencyReports", "FULL_MARKED UserLocations"}
