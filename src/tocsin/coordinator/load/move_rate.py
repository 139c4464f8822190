"""How often people are moved: moves per person and hour, over the last hour (pure)."""

from __future__ import annotations

_HOUR_S = 3600.0
#: Moves are counted by the minute, so that a million of them take sixty numbers.
_MINUTE_S = 60.0


class MoveRate:
    def __init__(self, now_s: float) -> None:
        self._begun_s = now_s
        self._moves: dict[int, int] = {}

    def add(self, now_s: float) -> None:
        """A subscriber has been moved."""
        minute = int(now_s // _MINUTE_S)
        self._moves[minute] = self._moves.get(minute, 0) + 1
        for old in [one for one in self._moves if one < minute - _HOUR_S // _MINUTE_S]:
            del self._moves[old]

    def per_person_hour(self, now_s: float, people: int) -> float:
        """Over the last hour, or since the beginning if that is shorter."""
        since_s = max(self._begun_s, now_s - _HOUR_S)
        moves = sum(count for minute, count in self._moves.items() if (minute + 1) * _MINUTE_S > since_s)
        # In its first minute, a coordinator would tell of one move as sixty an hour.
        hours = max(now_s - since_s, _MINUTE_S) / _HOUR_S
        return moves / people / hours if people else 0.0
