"""Which subscriptions are the same."""

from __future__ import annotations

from tocsin.model.people import fingerprint
from tocsin.protocol.subscription_keys import SubscriptionKey, key_fields, key_text


def test_equal_numbers_of_different_types_are_different_values() -> None:
    """Python takes 1, 1.0 and true for equal; a channel does not."""
    keys = {SubscriptionKey.of("C", {"a": value}, "") for value in (1, 1.0, True, "1")}
    assert len(keys) == 4
    assert len({key_text("C", {"a": value}, "") for value in (1, 1.0, True, "1")}) == 4


def test_order_of_parameters_makes_no_difference() -> None:
    """Whoever names them in another order shares the subscription."""
    assert SubscriptionKey.of("C", {"a": 1, "b": 2}, "") == SubscriptionKey.of("C", {"b": 2, "a": 1}, "")
    assert key_text("C", {"a": 1, "b": 2}, "x") is key_text("C", {"b": 2, "a": 1}, "x")


def test_a_value_that_was_filled_in_is_not_one_that_was_given() -> None:
    """Nobody shares another user's subscription by naming them; what is stored does not tell the two apart."""
    given = SubscriptionKey.of("Own", {"user_id": "ann"}, "")
    filled = SubscriptionKey.of("Own", {"user_id": "ann"}, "", ["User_Id"])
    assert given != filled
    assert given.stored() == filled.stored()


def test_one_device_knows_its_subscription_by_any_spelling() -> None:
    """Case of names and whole numbers written as fractions make no difference; true is still not 1."""
    folded = SubscriptionKey.folded("Near", {"X": 5.0, "on": True})
    assert folded == SubscriptionKey.folded("NEAR", {"x": 5, "ON": True})
    assert folded != SubscriptionKey.folded("near", {"x": 5, "on": 1})


def test_a_person_is_found_in_values_by_fingerprint() -> None:
    """Only whole values that are texts count."""
    people = {fingerprint("ann"), fingerprint("7")}
    assert SubscriptionKey.of("C", {"who": "ann"}, "").names_one_of(people)
    assert not SubscriptionKey.of("ann", {"who": "anna", "number": 7}, "ann").names_one_of(people)


def test_a_text_gives_back_what_it_was_made_of() -> None:
    """Channel, parameters and permission class, whatever their characters."""
    fields = ('a"b', {"é": "],", "n": 0.5}, "staff")
    assert key_fields(key_text(*fields)) == fields
