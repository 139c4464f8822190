"""Who stands by leads when it is given a term, and a leader whose lease another one has taken has lost for good."""

from __future__ import annotations

import pytest

from tocsin.runtime.leadership import LEASE_S, Leadership, Role


def test_a_standby_leads_once_it_is_given_a_term() -> None:
    """While another one leads, it tries again within a second."""
    leadership = Leadership()
    leadership.took(None)
    assert leadership.role is Role.STANDBY
    assert leadership.next_attempt_in_s <= 1
    leadership.took(7)
    assert (leadership.role, leadership.term) == (Role.LEADER, 7)


def test_a_leader_renews_in_time_even_if_two_attempts_fail() -> None:
    leadership = Leadership(Role.LEADER, 7)
    assert 3 * leadership.next_attempt_in_s < LEASE_S
    leadership.renewed(True)
    assert leadership.role is Role.LEADER


def test_who_has_lost_does_not_lead_again() -> None:
    """What it has in memory may be wrong: the process has to end."""
    leadership = Leadership(Role.LEADER, 7)
    leadership.renewed(False)
    assert leadership.role is Role.LOST
    for again in (leadership.renewed, leadership.took):
        with pytest.raises(AssertionError):
            again(True)
