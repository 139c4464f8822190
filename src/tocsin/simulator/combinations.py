"""The policies that a scenario may name, and combinations of them: `nearest/ldm+gsh`, `sharing`, `none`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from tocsin.balancing.migration import POLICIES as MIGRATIONS
from tocsin.balancing.placement import POLICIES as PLACEMENTS
from tocsin.balancing.placement import PlacementPolicy
from tocsin.balancing.plugins import with_plugins
from tocsin.balancing.proposal import BalancingPolicy
from tocsin.balancing.shuffle import POLICIES as SHUFFLES
from tocsin.errors import InvalidValue
from tocsin.simulator.scenario import Scenario

_NONE = "none"


# Our own, and those of other packages. They are looked for once.


@cache
def placements() -> Mapping[str, PlacementPolicy]:
    return with_plugins("placement", PLACEMENTS)


@cache
def migrations() -> Mapping[str, BalancingPolicy]:
    return with_plugins("migration", MIGRATIONS)


@cache
def shuffles() -> Mapping[str, BalancingPolicy]:
    return with_plugins("shuffle", SHUFFLES)


def combined(scenario: Scenario, combination: str) -> Scenario:
    """The scenario with these policies. A stage that is not named is off, except placement, which stays."""
    placement, slash, rest = combination.strip().rpartition("/")
    if slash and placement not in placements():
        raise _unknown(combination, placement, sorted(placements()), "placement policy")
    migration = shuffle = ""
    words = [] if rest.strip() == _NONE else [word.strip() for word in rest.split("+")]
    for word in words:
        if word in migrations() and not migration:
            migration = word
        elif word in shuffles() and not shuffle:
            shuffle = word
        elif word in migrations() or word in shuffles():
            raise InvalidValue(f"{combination!r} names two policies for one stage")
        else:
            raise _unknown(combination, word, [*sorted(migrations()), *sorted(shuffles()), _NONE], "policy")
    balancing = msgspec.structs.replace(
        scenario.balancing,
        placement=placement if slash else scenario.balancing.placement,
        migration=migration,
        shuffle=shuffle,
    )
    return msgspec.structs.replace(scenario, balancing=balancing)


def combinations(scenario: Scenario, listed: str) -> list[Scenario]:
    """One scenario for each combination in a comma-separated list.

    Equal combinations are run once.
    """
    found: dict[Scenario, None] = {}
    for one in listed.split(","):
        found[combined(scenario, one)] = None
    return list(found)


def _unknown(combination: str, word: str, known: Sequence[str], kind: str) -> InvalidValue:
    close = difflib.get_close_matches(word, known, n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    return InvalidValue(f"{combination!r}: {word!r} is no {kind}{meant}; there are: {', '.join(known)}")
