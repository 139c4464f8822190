"""Which subscriptions go on when a channel is replaced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tocsin.cluster.channels.compiler.fitting import (
    all_go_on,
    carried_over,
    may_go_on,
    reason_for_end,
    without_layout,
)
from tocsin.model.catalogue import Channel, ChannelKind, FilledBy, OncePer, Parameter
from tocsin.model.schema import ColumnType

_TYPE = Parameter("etype", ColumnType.STRING)
_RADIUS = Parameter("radius_m", ColumnType.DOUBLE, 1000.0)
_BEFORE = Channel("Near", ChannelKind.CONTINUOUS, (_TYPE, _RADIUS), "SELECT 1", retention_s=60.0)
_VALUES = ("flood", 500.0)


def after(*parameters: Parameter) -> Channel:
    written = Channel("NEAR", ChannelKind.REPETITIVE, parameters, "SELECT 2", 10.0)
    return carried_over(_BEFORE, written)


def test_name_and_retention_stay_and_the_rest_is_new() -> None:
    """CREATE says nothing of retention, and everybody knows the channel by its old spelling."""
    assert after(_TYPE, _RADIUS) == Channel(
        "Near", ChannelKind.REPETITIVE, (_TYPE, _RADIUS), "SELECT 2", 10.0, retention_s=60.0
    )


def test_parameters_in_another_order_are_the_same() -> None:
    """Values are kept by position, so the old order stays; names compare without regard to case."""
    found = after(replace(_RADIUS, name="RADIUS_M"), _TYPE)
    assert [one.name for one in found.parameters] == ["etype", "RADIUS_M"]
    assert all_go_on(_BEFORE, found)
    assert may_go_on(_BEFORE, found, _VALUES)


@pytest.mark.parametrize(
    "parameters",
    [
        (_TYPE,),
        (_TYPE, _RADIUS, Parameter("zone", ColumnType.STRING)),
        (_TYPE, replace(_RADIUS, name="metres")),
        (_TYPE, Parameter("radius_m", ColumnType.BIGINT, 1000)),
        (replace(_TYPE, filled_by=FilledBy.CLASS), _RADIUS),
    ],
    ids=["one less", "one more", "another name", "another type", "filled in"],
)
def test_other_parameters_end_all_subscriptions(parameters: tuple[Parameter, ...]) -> None:
    """Parameters have no defaults, so nobody can say what a value that was never given should be."""
    found = after(*parameters)
    assert not all_go_on(_BEFORE, found)
    assert not may_go_on(_BEFORE, found, _VALUES)
    assert reason_for_end(found).startswith("channel Near was replaced, and takes etype STRING")


def test_a_lower_limit_ends_those_who_are_beyond_it() -> None:
    """And only those; a higher limit, or none, ends nobody."""
    found = after(_TYPE, replace(_RADIUS, maximum=400.0))
    assert not all_go_on(_BEFORE, found)
    assert not may_go_on(_BEFORE, found, _VALUES)
    assert may_go_on(_BEFORE, found, ("flood", 400.0))
    found = after(_TYPE, replace(_RADIUS, maximum=None))
    assert all_go_on(_BEFORE, found)
    assert may_go_on(_BEFORE, found, _VALUES)


_QUERY = "SELECT r.id FROM Reports r WHERE r.etype = 'a b' -- said so\n AND r.id > 1"


def test_white_space_between_words_makes_no_other_definition() -> None:
    """Nor does the case of the channel's name; retention is no part of a definition."""
    one = replace(_BEFORE, body=_QUERY, once=OncePer("r.id,  r.etype"))
    other = replace(one, name="NEAR", body=_QUERY.replace(" WHERE", "\n\t WHERE"), once=OncePer("r.id, r.etype"))
    assert without_layout(one) == without_layout(replace(other, retention_s=None))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(_QUERY.replace("'a b'", "'a  b'"), id="white space in a string"),
        pytest.param(_QUERY.replace("\n", ""), id="a condition that became part of a comment"),
        pytest.param(_QUERY.replace("r.id >", "`r.id` >"), id="a quoted name"),
    ],
)
def test_what_gives_other_results_is_another_definition(body: str) -> None:
    """Otherwise CREATE OR REPLACE would answer that there is nothing to do, and the old query would go on."""
    one = replace(_BEFORE, body=_QUERY)
    assert without_layout(one) != without_layout(replace(one, body=body))


def test_white_space_in_a_string_of_the_keys_makes_another_definition() -> None:
    one, other = (replace(_BEFORE, once=OncePer(f"concat(r.id, '{blanks}')")) for blanks in (" ", "  "))
    assert without_layout(one) != without_layout(other)
