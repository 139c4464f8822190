"""Sharing-aware shuffle: everybody to where brokers fetch least for the many, from where they are now (pure).

After any greedy shuffle the loads are even, and what is left to gain is that fewer brokers fetch the same subscription.
Beginning where everybody is costs nothing in quality, and spares the moves that would bring nothing.
"""

from __future__ import annotations

from tocsin.balancing.assignment import AssignmentView, Numbers
from tocsin.balancing.load_table import LoadTable
from tocsin.balancing.local_search import search
from tocsin.balancing.proposal import Goal, Proposal
from tocsin.balancing.shuffle.gsh import gsh

REASONS = ("the destination shares more with it, and the loads become more even",)


def sharing(view: AssignmentView, goal: Goal) -> Proposal:
    """Never worse than where everybody is, nor, without a budget, than a greedy shuffle."""
    if not view.takes.any():
        return Proposal(view.owners, REASONS)
    found = search(LoadTable.of(view), view.movable, goal.max_moves)
    if goal.max_moves is None:
        found = better_of_greedy(view, found, goal)
    return Proposal(found, REASONS)


def better_of_greedy(view: AssignmentView, found: Numbers, goal: Goal) -> Numbers:
    """With few subscribers, or where everything is held everywhere, searching may end a little above what greed alone
    finds; then search from there, if it is worth moving everybody."""
    greedy = LoadTable.of(view, gsh(view, goal).owners)
    if greedy.max_score * (1 + goal.spare_moves_within) < LoadTable.of(view, found).max_score:
        return search(greedy, view.movable)
    return found
