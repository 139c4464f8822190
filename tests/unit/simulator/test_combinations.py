"""Policies side by side, in one word each."""

from __future__ import annotations

import pytest

from tocsin.errors import InvalidValue
from tocsin.simulator.combinations import combinations
from unit.simulator.scenarios import small


def chosen(listed: str) -> list[tuple[str, str, str]]:
    settings = [one.balancing for one in combinations(small(balancing__placement="random"), listed)]
    return [(one.placement, one.migration, one.shuffle) for one in settings]


def test_what_is_not_named_is_off_but_placement_stays() -> None:
    assert chosen("none, ldm,gsh,ldm+gsh,gsh+sdm,nearest/none, round-robin/group+sharing") == [
        ("random", "", ""),
        ("random", "ldm", ""),
        ("random", "", "gsh"),
        ("random", "ldm", "gsh"),
        ("random", "sdm", "gsh"),
        ("nearest", "", ""),
        ("round-robin", "group", "sharing"),
    ]


def test_the_same_is_run_once() -> None:
    """Two ways to write one combination are one run."""
    assert chosen("ldm+gsh,gsh+ldm,random/ldm+gsh") == [("random", "ldm", "gsh")]


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("ldm,ldn", "'ldn' is no policy; did you mean ldm?; there are: group, ldm, sdm, gsh"),
        ("ldm+sdm", "names two policies for one stage"),
        ("neerest/ldm", "'neerest' is no placement policy; did you mean nearest?"),
        ("", "'' is no policy"),
        ("ldm,,gsh", "'' is no policy"),
        ("none+ldm", "'none' is no policy"),
        ("/ldm", "'' is no placement policy"),
    ],
)
def test_unknown_policies_are_told_with_those_there_are(listed: str, said: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        chosen(listed)
    assert said in str(caught.value)
