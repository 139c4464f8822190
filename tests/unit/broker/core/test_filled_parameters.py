"""What a broker fills in for those who have connected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.broker.core.filled_parameters import _MAX_CHANNELS, Filling
from tocsin.errors import Forbidden
from tocsin.protocol.subscription_keys import SubscriptionKey

_NAMES = st.text(min_size=1, max_size=8)


@given(_NAMES, _NAMES, st.dictionaries(st.sampled_from(["user_id", "USER_ID", "class", "Class", "topic"]), _NAMES))
def test_whatever_is_given_the_filled_values_are_ones_own(user: str, permission: str, given: dict[str, str]) -> None:
    """Refused, or filled in; nothing else. What nobody fills in stays as it was given."""
    filling = Filling()
    filling.learn("nearme", {"user_id": "USER", "Class": "CLASS"})
    try:
        key = filling.fill(SubscriptionKey.of("NearMe", given, permission), user)
    except Forbidden:
        own = {"user_id": user, "class": permission}
        assert any(own.get(name.lower(), value) != value for name, value in given.items())
        return
    values = key.parameter_values()
    assert values == {"user_id": user, "Class": permission} | ({"topic": given["topic"]} if "topic" in given else {})
    assert key.filled == ("class", "user_id")
    assert filling.fill(key, user) == key, "to fill in twice changes nothing"
    assert filling.fill(key.stored(), user) == key, "as it is carried on from a store, or by another broker"


def test_what_was_carried_on_must_be_ones_own() -> None:
    """A session that names somebody else's values does not become right by being carried on."""
    filling = Filling()
    filling.learn("NearMe", {"user_id": "USER"})
    with pytest.raises(Forbidden, match="your own name, 'eve'"):
        filling.fill(SubscriptionKey.of("NearMe", {"user_id": "bob"}, ""), "eve")


def test_what_was_filled_in_for_another_channel_of_that_name_is_taken_out() -> None:
    """The channel was dropped, and made anew with other parameters."""
    filling = Filling()
    filling.learn("NearMe", {"user_id": "USER"})
    before = filling.fill(SubscriptionKey.of("NearMe", {"radius_m": 5}, ""), "eve")
    filling.learn("NearMe", {"owner": "USER"})
    assert filling.fill(before, "eve").parameter_values() == {"radius_m": 5, "owner": "eve"}
    filling.learn("NearMe", {})
    assert filling.fill(before, "eve") == SubscriptionKey.of("NearMe", {"radius_m": 5}, "")


def test_what_is_remembered_is_bounded() -> None:
    """Channels that fill nothing in take no room at all."""
    filling = Filling()
    for number in range(_MAX_CHANNELS + 100):
        filling.learn(f"C{number}", {"u": "USER"})
        filling.learn(f"D{number}", {})
    assert len(filling._channels) == _MAX_CHANNELS
