"""Networks to balance: who holds what, drawn from a seed, at any size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.assignment import AssignmentView


def zipf(
    seed: int, subscribers: int, subscriptions: int, brokers: int, each: int, exponent: float = 1.0
) -> AssignmentView:
    """Some subscriptions are far more popular than others."""
    draw = np.random.default_rng([seed, 1])
    counts = _counts(draw, subscribers, each)
    return _view(draw, counts, _by_rank(draw, counts.sum(), subscriptions, exponent), subscriptions, brokers)


def communities(
    seed: int,
    subscribers: int,
    subscriptions: int,
    brokers: int,
    each: int,
    groups: int = 50,
    inside: float = 0.9,
    exponent: float = 0.9,
) -> AssignmentView:
    """Circles of subscribers, each mostly with subscriptions of its own, of which some are more popular."""
    draw = np.random.default_rng([seed, 2])
    counts = _counts(draw, subscribers, each)
    size = subscriptions // groups
    group = np.repeat(draw.integers(groups, size=subscribers), counts)
    elsewhere = draw.integers(groups, size=counts.sum())
    group = np.where(draw.random(counts.sum()) < inside, group, elsewhere)
    return _view(draw, counts, group * size + _by_rank(draw, counts.sum(), size, exponent), subscriptions, brokers)


def uniform(seed: int, subscribers: int, subscriptions: int, brokers: int, each: int) -> AssignmentView:
    """Everything is as popular as everything else."""
    draw = np.random.default_rng([seed, 3])
    counts = _counts(draw, subscribers, each)
    return _view(draw, counts, draw.integers(subscriptions, size=counts.sum()), subscriptions, brokers)


def _by_rank(draw: np.random.Generator, count: int, size: int, exponent: float) -> NDArray[np.int64]:
    """Numbers below `size`, each as likely as its rank to the power of minus `exponent`."""
    weights = 1 / np.arange(1, size + 1) ** exponent
    return np.searchsorted(np.cumsum(weights / weights.sum()), draw.random(count)).clip(max=size - 1)


def _counts(draw: np.random.Generator, subscribers: int, each: int) -> NDArray[np.int64]:
    return np.maximum(1, draw.poisson(each, size=subscribers))


def _view(
    draw: np.random.Generator,
    counts: NDArray[np.int64],
    chosen: NDArray[np.int64],
    subscriptions: int,
    brokers: int,
) -> AssignmentView:
    """What somebody chose twice counts once. Where they are is skewed: some brokers have far more than others."""
    subscribers = len(counts)
    pairs = np.unique(np.repeat(np.arange(subscribers), counts) * subscriptions + chosen)
    offsets = np.zeros(subscribers + 1, np.int64)
    np.cumsum(np.bincount(pairs // subscriptions, minlength=subscribers), out=offsets[1:])
    shares = draw.dirichlet(np.full(brokers, 1.5))
    return AssignmentView(
        tuple(f"b{number:03}" for number in range(brokers)),
        np.ones(brokers),
        np.ones(brokers, np.bool_),
        tuple(f"s{number:07}" for number in range(subscribers)),
        draw.choice(brokers, size=subscribers, p=shares).astype(np.int32),
        np.ones(subscribers, np.bool_),
        np.ones(subscribers, np.bool_),
        tuple(f"k{number:06}" for number in range(subscriptions)),
        draw.lognormal(0.0, 1.0, subscriptions),
        offsets,
        (pairs % subscriptions).astype(np.int32),
    )
