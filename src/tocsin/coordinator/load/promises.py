"""Whether plans keep what they promise: the cov that brokers measure in the minute after a plan (pure)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import fmean

from tocsin.balancing.evenness import Balance, compared, cov_of

#: For so long after a plan's last move, the brokers' traffic is measured.
WATCHED_S = 60.0
#: Operators look at the last few.
_MOST_REMEMBERED = 100


@dataclass(frozen=True, slots=True)
class Promise:
    """The cov that was expected without a plan, and with it."""

    plan: str
    cov_before: float
    promised_cov: float


@dataclass(frozen=True, slots=True)
class Kept:
    """What came of a promise. `share` is the part of the promised fall of cov that came true; None if no fall was
    promised."""

    plan: str
    promised_cov: float
    kept_cov: float
    share: float | None


class Promises:
    """Call `look` regularly with the bytes that each broker has carried so far, as its loads."""

    def __init__(self) -> None:
        self._open: dict[str, Promise] = {}
        self._watched: list[tuple[Promise, float, Balance]] = []
        self._kept: deque[Kept] = deque(maxlen=_MOST_REMEMBERED)

    @property
    def kept(self) -> list[Kept]:
        """The oldest first."""
        return list(self._kept)

    def summary(self) -> dict[str, int | float | None]:
        """How many, and the means of the promised and of the measured covs."""
        kept = self._kept
        return {
            "plans": len(kept),
            "promised_cov": fmean(one.promised_cov for one in kept) if kept else None,
            "kept_cov": fmean(one.kept_cov for one in kept) if kept else None,
        }

    def begun(self, promise: Promise) -> None:
        """Its plan is being carried out."""
        self._open[promise.plan] = promise

    def ended(self, now_s: float, carried: Balance) -> None:
        """All plans that had begun have been carried out, or given up."""
        self._watched += [(promise, now_s, carried) for promise in self._open.values()]
        self._open.clear()

    def look(self, now_s: float, carried: Balance) -> list[Kept]:
        """Those of which it is known by now."""
        over = [one for one in self._watched if now_s - one[1] >= WATCHED_S]
        self._watched = [one for one in self._watched if now_s - one[1] < WATCHED_S]
        kept = [_kept(promise, before, carried) for promise, _, before in over]
        self._kept.extend(kept)
        return kept


def _kept(promise: Promise, before: Balance, now: Balance) -> Kept:
    """Brokers that have come or gone since are left out. So are those that began anew: they count from 0 again."""
    begun = dict(zip(before.brokers, before.loads, strict=True))
    spans = [
        (load - begun[name], load / score if score else 1.0, takes)
        for name, load, score, takes in zip(now.brokers, now.loads, now.scores, now.takes, strict=True)
        if load >= begun.get(name, float("inf"))
    ]
    scores = [carried / capacity for carried, capacity, _ in spans]
    cov = cov_of(compared(scores, [takes for _, _, takes in spans]))
    promised_fall = promise.cov_before - promise.promised_cov
    share = min(1.0, max(0.0, (promise.cov_before - cov) / promised_fall)) if promised_fall > 0 else None
    return Kept(promise.plan, promise.promised_cov, cov, share)
