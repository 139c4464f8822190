"""Named random streams: every purpose draws from its own, so that a change of one redraws no other."""

from __future__ import annotations

from zlib import crc32

import numpy as np


def stream(seed: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(crc32(purpose.encode()),)))


class Dice:
    """The machines' source of chance: see `model.chance.Chance`."""

    def __init__(self, seed: int, purpose: str) -> None:
        self._stream = stream(seed, purpose)

    def randrange(self, stop: int, /) -> int:
        return int(self._stream.integers(stop))

    def random(self) -> float:
        return float(self._stream.random())
