"""The grid that makes `within` an equi-join."""

from __future__ import annotations

from math import inf, isinf, log2

from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.channels.compiler.near import cell_size_for
from unit.cluster.channels.emergency import compile_body, shown


def test_a_radius_parameter_leaves_the_cell_size_open() -> None:
    """It follows from the subscriptions; a literal radius is known at once; a column gives no cells."""
    near = "SELECT r.id FROM EmergencyReports r WHERE is_new(r) AND within(r.x, r.y, :x, :y, {})"
    assert compile_body(near.format(":r")).radius_parameters == ("r",)
    literal = compile_body(near.format("500"))
    assert literal.radius_parameters == ()
    assert "256.0D" in shown(literal)
    assert "_cell" not in shown(compile_body(near.format("r.severity")))


def test_only_the_joined_side_of_a_left_join_is_repeated() -> None:
    """Repeating the other side would repeat the rows that match nothing."""
    body = "SELECT r.id FROM EmergencyReports r LEFT JOIN Shelters s ON within(r.x, r.y, s.x, s.y, 9) WHERE is_new(r)"
    assert "FROM full_Shelters AS `s` LATERAL VIEW" in shown(compile_body(body))


def test_no_relation_is_repeated_twice() -> None:
    """What is new is repeated for the largest partner, the small reference for the other."""
    body = """SELECT r.id FROM EmergencyReports r JOIN Shelters s ON within(r.x, r.y, s.x, s.y, 100)
              WHERE is_new(r) AND within(r.x, r.y, :x, :y, 500)"""
    sql = shown(compile_body(body))
    assert "FROM new_EmergencyReports AS `r` LATERAL VIEW" in sql
    assert "FROM full_Shelters AS `s` LATERAL VIEW" in sql
    assert "FROM subscriptions AS `_s` LATERAL VIEW" not in sql


@given(st.floats(min_value=0, allow_nan=False))
def test_cells_are_powers_of_two_wider_than_half_the_radius(radius: float) -> None:
    """So two cells to each side are always enough, and dividing by the size is exact."""
    size = cell_size_for(radius)
    assert size > radius / 2 or size == inf
    assert isinf(size) or log2(size) == int(log2(size))
    assert size <= max(2 * radius, 2.0**-20) or isinf(size)
