"""Stock quotes, and the filters of the paper's subscribers (Cheung and Jacobsen, TOCS 28(4), section 6).

Three times a fifth of the subscribers want one stock above a high, below a low, or above a volume; 34% want one stock,
5% a volume of any stock, and 1% everything. Limits are drawn from the stock's own quotes. The paper's were Yahoo's
daily ones; here they are drawn from a seed: prices walk, and volumes are lognormal.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tocsin.model.schema import Column, ColumnType, Schema

QUOTES: Final = Schema(
    (
        Column("symbol", ColumnType.STRING, nullable=False),
        Column("open", ColumnType.DOUBLE),
        Column("high", ColumnType.DOUBLE),
        Column("low", ColumnType.DOUBLE),
        Column("close", ColumnType.DOUBLE),
        Column("volume", ColumnType.BIGINT),
        Column("day", ColumnType.DATE),
        Column("note", ColumnType.STRING),
    )
)
#: As many as the paper's simulation has publishers.
SYMBOLS: Final = 40
_QUOTES_EACH: Final = 1_000
_QUOTE_BYTES: Final = 400


@dataclass(frozen=True, slots=True)
class QuoteFilter:
    """One subscriber's limits; None where there is none."""

    symbol: str | None = None
    high_above: float | None = None
    low_below: float | None = None
    volume_above: int | None = None

    def where(self) -> str:
        """As a filter.

        >>> QuoteFilter("YHOO", volume_above=5).where()
        "symbol = 'YHOO' AND volume > 5"
        """
        return " AND ".join(self._conditions("=", "'")) or "TRUE"

    def cel(self) -> str:
        """In the Common Expression Language."""
        return " && ".join(self._conditions("==", '"')) or "true"

    def _conditions(self, equals: str, quote: str) -> list[str]:
        limits = ((self.high_above, "high >"), (self.low_below, "low <"), (self.volume_above, "volume >"))
        conditions = [] if self.symbol is None else [f"symbol {equals} {quote}{self.symbol}{quote}"]
        return conditions + [f"{side} {limit}" for limit, side in limits if limit is not None]


class Market:
    """Quotes and filters that follow from a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._quotes = {f"SYM{number:02d}": self._walk(f"SYM{number:02d}") for number in range(SYMBOLS)}

    def records(self, count: int) -> list[bytes]:
        """Quotes of any stock and day, as JSON of 400 bytes."""
        return [self._encoded(self._quote(self._symbol())) for _ in range(count)]

    def filters(self, count: int) -> list[QuoteFilter]:
        """The paper's mix."""
        return [self._filter() for _ in range(count)]

    def narrow_filters(self, count: int) -> list[QuoteFilter]:
        """Only those that want one stock and have a limit: the others cover nearly all of them."""
        found: list[QuoteFilter] = []
        while len(found) < count:
            one = self._filter()
            if one.symbol is not None and one != QuoteFilter(one.symbol):
                found.append(one)
        return found

    def band(self) -> str:
        """A range of prices and one of volumes; few of these cover each other."""
        low, volume = self._chance.uniform(5, 500), self._chance.randrange(1_000_000)
        return (
            f"close BETWEEN {low:.2f} AND {low + self._chance.uniform(1, 20):.2f}"
            f" AND volume BETWEEN {volume} AND {volume + self._chance.randrange(1_000, 100_000)}"
        )

    def _filter(self) -> QuoteFilter:
        symbol = self._symbol()
        quote = self._quote(symbol)
        share = self._chance.random()
        if share < 0.2:
            return QuoteFilter(symbol, high_above=quote["high"])
        if share < 0.4:
            return QuoteFilter(symbol, low_below=quote["low"])
        if share < 0.6:
            return QuoteFilter(symbol, volume_above=quote["volume"])
        if share < 0.94:
            return QuoteFilter(symbol)
        return QuoteFilter(volume_above=quote["volume"]) if share < 0.99 else QuoteFilter()

    def _symbol(self) -> str:
        return f"SYM{self._chance.randrange(SYMBOLS):02d}"

    def _quote(self, symbol: str) -> dict[str, Any]:
        return self._chance.choice(self._quotes[symbol])

    def _walk(self, symbol: str) -> list[dict[str, Any]]:
        close, quotes = self._chance.uniform(5, 100), []
        for number in range(_QUOTES_EACH):
            opened, close = close, close * (1 + self._chance.gauss(0, 0.02))
            quotes.append(
                {
                    "symbol": symbol,
                    "open": round(opened, 2),
                    "high": round(max(opened, close) * (1 + abs(self._chance.gauss(0, 0.01))), 2),
                    "low": round(min(opened, close) * (1 - abs(self._chance.gauss(0, 0.01))), 2),
                    "close": round(close, 2),
                    "volume": int(self._chance.lognormvariate(13, 1)),
                    "day": f"{2020 + number // 336}-{number // 28 % 12 + 1:02d}-{number % 28 + 1:02d}",
                    "note": "",
                }
            )
        return quotes

    def _encoded(self, quote: dict[str, Any]) -> bytes:
        room = _QUOTE_BYTES - len(msgspec.json.encode(quote))
        return msgspec.json.encode({**quote, "note": "x" * room})
