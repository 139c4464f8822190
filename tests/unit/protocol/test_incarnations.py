"""One data folder has a broker's name at a time, and only its last start counts."""

from __future__ import annotations

import pytest

from tocsin.errors import AlreadyExists, InUse, NotFound, Superseded
from tocsin.protocol.incarnations import NOBODY, Holder, check_caller, fingerprint, take_name

_ONE = Holder("one", 100, "x")


def _take(known: Holder | None, identity: str, start: str = "y", now_us: int = 50, silent_s: float = 0.2) -> Holder:
    return take_name("b", known, identity, start, now_us, silent_s=silent_s)


def test_a_new_name_is_had_by_whoever_comes_first() -> None:
    assert _take(None, "one") == Holder("one", 50, "y")


def test_the_same_folder_supersedes_at_once_and_the_number_grows_whatever_the_clock_says() -> None:
    """A broker that was killed and started again is taken at once."""
    assert _take(_ONE, "one", now_us=50) == Holder("one", 101, "y")
    assert _take(_ONE, "one", now_us=5000) == Holder("one", 5000, "y")


def test_registering_twice_is_registering_once() -> None:
    """An answer that was lost, or a request that comes late, makes nobody refuse its own calls."""
    assert _take(_ONE, "one", "x") == _ONE


def test_another_folder_is_refused_while_the_known_one_is_alive() -> None:
    """The error names both and says what to do."""
    with pytest.raises(AlreadyExists) as caught:
        _take(_ONE, "two", silent_s=14.9)
    for part in ("called b", fingerprint("one"), fingerprint("two"), "14.9 s ago", "another name", "silent for 15 s"):
        assert part in caught.value.message
    with pytest.raises(AlreadyExists):
        _take(_ONE, "", silent_s=14.9)
    assert _take(_ONE, "two", silent_s=15).identity == "two"


def test_a_silent_ones_name_is_taken_by_who_says_so() -> None:
    """Whoever has not been given the name elsewhere must not: the silent one may be cut off from here alone."""
    for known, identity in ((_ONE, "one"), (Holder("", 7), "two"), (None, "two")):
        assert take_name("b", known, identity, "y", 5000, silent_s=20, takes_over=False).identity == identity
    with pytest.raises(InUse, match=f"{fingerprint('one')}.*fell silent.*{fingerprint('two')}"):
        take_name("b", _ONE, "two", "y", 5000, silent_s=20, takes_over=False)
    with pytest.raises(AlreadyExists):
        take_name("b", _ONE, "two", "y", 5000, silent_s=1, takes_over=False)


def test_who_never_gave_an_identity_can_be_followed_by_anybody() -> None:
    assert _take(Holder("", 7), "two") == Holder("two", 50, "y")


def test_calls_by_older_incarnations_are_refused() -> None:
    """Also those that say none; one that is newer than what is known here has to register again."""
    check_caller("b", _ONE, 100)
    for incarnation in (0, 99):
        with pytest.raises(Superseded, match=f"broker b .* incarnation {incarnation} is refused"):
            check_caller("b", _ONE, incarnation)
    with pytest.raises(NotFound, match="register again"):
        check_caller("b", _ONE, 101)
    check_caller("b", NOBODY, 0)
    check_caller("b", Holder("", 7), 0)
