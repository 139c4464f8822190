"""What ALTER CHANNEL can set: times, given as strings such as '30 seconds'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tocsin.cluster.channels.compiler.dialect import read_number

MIN_PERIOD_S = 0.1
MAX_PERIOD_S = 24 * 3600.0
#: Retention is looked at every minute.
_MIN_RETENTION_S = 60.0
_MAX_RETENTION_S = 3_660 * 86_400.0

UNITS_OF_PERIODS = {"SECOND": 1, "SECONDS": 1, "MINUTE": 60, "MINUTES": 60, "HOUR": 3600, "HOURS": 3600}
UNITS = {**UNITS_OF_PERIODS, "DAY": 86_400, "DAYS": 86_400}


@dataclass(frozen=True, slots=True)
class ChannelOption:
    """`limits` are the same as the seconds, in words; `otherwise` is what can be written in place of a time."""

    minimum_s: float
    maximum_s: float
    limits: str
    example: str
    otherwise: str = ""

    def seconds(self, text: str) -> float:
        """Raises ValueError, whose message follows the option's name.

        >>> OPTIONS["PERIOD"].seconds("1.5 minutes")
        90.0
        >>> OPTIONS["PERIOD"].seconds("2 days")
        Traceback (most recent call last):
        ValueError: must lie between 0.1 seconds and 24 hours
        """
        number, _, unit = text.strip().partition(" ")
        try:
            seconds = float(read_number(number)) * UNITS[unit.strip().upper()]
        except (ValueError, KeyError):
            units = ", ".join(one.lower() for one in UNITS if one.endswith("S"))
            wanted = f"needs a number and a unit in quotes, such as {self.example}{self.otherwise}"
            raise ValueError(f"{wanted}; units are {units}") from None
        if not self.minimum_s <= seconds <= self.maximum_s:
            raise ValueError(f"must lie between {self.limits}")
        return seconds


OPTIONS: Final = {
    "PERIOD": ChannelOption(MIN_PERIOD_S, MAX_PERIOD_S, "0.1 seconds and 24 hours", "'30 seconds'"),
    "RETENTION": ChannelOption(
        _MIN_RETENTION_S, _MAX_RETENTION_S, "1 minute and 3660 days", "'2 hours'", otherwise=", or DEFAULT"
    ),
}
