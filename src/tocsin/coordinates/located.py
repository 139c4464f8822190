"""Where a subscriber is in the network: its coordinate, and the round trips that it has measured itself (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tocsin.coordinates.coordinate import Coordinate, check_round_trip_ms, estimate_ms
from tocsin.errors import InvalidValue

#: Brokers that a subscriber measures.
MAX_MEASURED = 8
_MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class Located:
    """`round_trips_ms` are to brokers, by name."""

    coordinate: Coordinate
    round_trips_ms: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises InvalidValue."""
        if len(self.round_trips_ms) > MAX_MEASURED:
            raise InvalidValue(
                f"round_trips_ms: {len(self.round_trips_ms)} brokers; at most {MAX_MEASURED} are allowed"
            )
        for broker, round_trip_ms in self.round_trips_ms.items():
            if len(broker) > _MAX_NAME:
                raise InvalidValue(f"round_trips_ms: a name of {len(broker)} letters; at most {_MAX_NAME} are allowed")
            check_round_trip_ms(round_trip_ms)

    def round_trip_ms(self, broker: str, there: Coordinate | None) -> float | None:
        """To a broker whose coordinate is `there`: as measured, else as estimated; None if neither is known.

        >>> from tocsin.coordinates.coordinate import ORIGIN
        >>> located = Located(ORIGIN, {"north": 12.5})
        >>> located.round_trip_ms("north", ORIGIN), located.round_trip_ms("south", ORIGIN)
        (12.5, 0.02)
        """
        if (measured_ms := self.round_trips_ms.get(broker)) is not None:
            return measured_ms
        return None if there is None else estimate_ms(self.coordinate, there)
