"""Sharing-aware shuffle: a search from the current assignment for one in which brokers fetch least (pure).

After any greedy shuffle the loads are even; the only gain left is that fewer brokers fetch the same subscription. A
search from the current assignment loses no quality, and saves moves that gain nothing.
"""

from __future__ import annotations

from tocsin.balancing.assignment import AssignmentView, Numbers
from tocsin.balancing.load_table import LoadTable
from tocsin.balancing.local_search import search
from tocsin.balancing.proposal import Goal, Proposal
from tocsin.balancing.shuffle.gsh import gsh

REASONS = ("the destination shares more with it, and the loads become more even",)


def sharing(view: AssignmentView, goal: Goal) -> Proposal:
    """Never worse than the current assignment nor, without a budget, than a greedy shuffle."""
    if not view.takes.any():
        return Proposal(view.owners, REASONS)
    found = search(LoadTable.of(view), view.movable, goal.max_moves)
    if goal.max_moves is None:
        found = better_of_greedy(view, found, goal)
    return Proposal(found, REASONS)


def better_of_greedy(view: AssignmentView, found: Numbers, goal: Goal) -> Numbers:
    """With few subscribers, or if everything is held everywhere, the search may end a little above the greedy shuffle.
    In that case search again from the greedy one, if that is worth its many moves."""
    greedy = LoadTable.of(view, gsh(view, goal).owners)
    if greedy.max_score * (1 + goal.spare_moves_within) < LoadTable.of(view, found).max_score:
        return search(greedy, view.movable)
    return found
