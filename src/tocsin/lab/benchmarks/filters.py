"""Records matched against many filters, for each second of CPU; beside comparing all predicates in numpy, and CEL.

A record is decoded from JSON and matched, on one core; the answer is a list of the names of filters, here numbers. The
numpy peer compares every predicate of every filter at once, in arrays made for this workload. CEL evaluates one
compiled expression after the other; it is measured if it is installed. All three have to find the same filters.
"""

from __future__ import annotations

import gc
import importlib
import time
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
import numpy as np

from tocsin.errors import ClusterFailure
from tocsin.filters.covering import covers
from tocsin.filters.covering_set import CoveringSet
from tocsin.filters.filter import Filter
from tocsin.filters.index import FilterIndex
from tocsin.filters.language import parse
from tocsin.filters.rows import RowEncoder
from tocsin.lab.benchmarks.measuring import machine, progress
from tocsin.lab.benchmarks.quote_filters import QUOTES, Market, QuoteFilter

_SIZES: Final = {"1k": 1_000, "10k": 10_000, "100k": 100_000}
_CEL: Final = "common-expression-language"
#: CEL takes milliseconds for each.
_CEL_RECORDS: Final = 100
#: Memory is traced, which is slow, on so many.
_TRACED: Final = 10_000

Found = Callable[[bytes], list[int]]


def run(seed: int, records: int, covered: int, compared: int) -> dict[str, Any]:
    market = Market(seed)
    report: dict[str, Any] = {"benchmark": "filters", "machine": machine(), "records": records, "record_bytes": 400}
    figures = {name: _matching(market, count, market.records(records)) for name, count in _SIZES.items()}
    for key in figures["1k"]:
        report[key] = {name: figure[key] for name, figure in figures.items() if figure[key] is not None}
    if "1k" not in report["ratio_to_cel"]:
        report["ratio_to_cel"] = f"not measured: pip install {_CEL}"
    return report | {"memory": _memory(market), "covering": _covering(market, covered, compared)}


def _matching(market: Market, count: int, records: list[bytes]) -> dict[str, Any]:
    progress.print(f"{count:,} filters: parsing")
    drawn = market.filters(count)
    began = time.process_time()
    filters = [parse(one.where(), QUOTES) for one in drawn]
    parsed_s = time.process_time() - began
    index: FilterIndex[int] = FilterIndex(QUOTES)
    began = time.process_time()
    for name, one in enumerate(filters):
        index.add(name, one)
    added_s = time.process_time() - began
    encode, decode = RowEncoder(QUOTES), msgspec.json.Decoder().decode
    ours: Found = lambda record: index.matching(encode(decode(record)))  # noqa: E731
    all_at_once = _AllAtOnce(drawn)
    theirs: Found = lambda record: all_at_once.matching(decode(record))  # noqa: E731
    cel = _cel(drawn) if count == _SIZES["1k"] else None
    _check(records[:20], ours, theirs, *([cel] if cel else []))
    found, per_s = _rate(ours, records)
    _, numpy_per_s = _rate(theirs, records)
    cel_per_s = _rate(cel, records[:_CEL_RECORDS])[1] if cel else None
    began = time.process_time()
    for name in range(count):
        index.remove(name)
    removed_s = time.process_time() - began
    progress.print(f"{count:,} filters: {per_s:,.0f} records per CPU-second, {found:,.0f} matches each")
    return {
        "records_per_cpu_s": round(per_s),
        "matches_per_record": round(found, 1),
        "ratio_to_all_predicates_numpy": round(per_s / numpy_per_s, 1),
        "ratio_to_cel": round(per_s / cel_per_s) if cel_per_s else None,
        "parse_us": round(parsed_s / count * 1e6, 1),
        "add_us": round(added_s / count * 1e6, 1),
        "remove_us": round(removed_s / count * 1e6, 1),
    }


def _rate(matching: Found, records: list[bytes]) -> tuple[float, float]:
    """Matches for each record, and records for each second of CPU: the best of three rounds."""
    best, found = 0.0, 0
    for _ in range(3):
        gc.collect()
        began, found = time.process_time(), 0
        for record in records:
            found += len(matching(record))
        best = max(best, len(records) / (time.process_time() - began))
    return found / len(records), best


def _check(records: Iterable[bytes], *ways: Found) -> None:
    for record in records:
        answers = [sorted(way(record)) for way in ways]
        if any(answer != answers[0] for answer in answers):
            raise ClusterFailure(f"the ways of matching find different filters for {record.decode()}")


class _AllAtOnce:
    """Every predicate of every filter, compared in whole arrays; what a filter does not ask for is always true."""

    def __init__(self, filters: list[QuoteFilter]) -> None:
        codes = {symbol: code for code, symbol in enumerate(sorted({one.symbol or "" for one in filters}))}
        self._codes = codes
        self._symbols = np.array([codes[one.symbol] if one.symbol else -1 for one in filters])
        self._highs = np.array([-np.inf if one.high_above is None else one.high_above for one in filters])
        self._lows = np.array([np.inf if one.low_below is None else one.low_below for one in filters])
        self._volumes = np.array([-1 if one.volume_above is None else one.volume_above for one in filters])

    def matching(self, quote: dict[str, Any]) -> list[int]:
        matches = (self._symbols == self._codes.get(quote["symbol"], -2)) | (self._symbols == -1)
        matches &= self._highs < quote["high"]
        matches &= self._lows > quote["low"]
        matches &= self._volumes < quote["volume"]
        found: list[int] = np.flatnonzero(matches).tolist()
        return found


def _cel(filters: list[QuoteFilter]) -> Found | None:
    try:
        cel = importlib.import_module("cel")
    except ImportError:
        progress.print(f"CEL is not measured; for that, pip install {_CEL}")
        return None
    programs = [cel.compile(one.cel()) for one in filters]
    decode = msgspec.json.Decoder().decode

    def matching(record: bytes) -> list[int]:
        context = cel.Context(decode(record))
        return [name for name, program in enumerate(programs) if program.execute(context)]

    return matching


def _memory(market: Market) -> dict[str, int]:
    """What an index of the paper's mix takes, for each filter, beside the filters themselves."""
    filters = [parse(one.where(), QUOTES) for one in market.filters(_TRACED)]
    gc.collect()
    tracemalloc.start()
    index: FilterIndex[int] = FilterIndex(QUOTES)
    for name, one in enumerate(filters):
        index.add(name, one)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"index_bytes_per_filter": round(size / _TRACED)}


def _covering(market: Market, count: int, compared: int) -> dict[str, Any]:
    """Covering sets of filters that come and go, and whether that of some is what comparing each with each gives."""
    workloads = {
        "paper": [one.where() for one in market.filters(count)],
        "narrow": [one.where() for one in market.narrow_filters(count)],
        "bands": [market.band() for _ in range(count)],
    }
    report: dict[str, Any] = {"filters": count, "compared": min(count, compared)}
    for name, texts in workloads.items():
        progress.print(f"covering: {count:,} filters, {name}")
        report[name] = _covering_of([parse(text, QUOTES) for text in texts], compared)
    return report


def _covering_of(filters: list[Filter], compared: int) -> dict[str, Any]:
    some = CoveringSet(QUOTES)
    began = time.process_time()
    for one in filters:
        some.add(one)
    added_s = time.process_time() - began
    roots = {one.text for one in some}
    began = time.process_time()
    everything = parse("TRUE", QUOTES)
    storm = 20
    for _ in range(storm):
        some.add(everything)
        some.remove(everything)
    storm_s = time.process_time() - began
    few = CoveringSet(QUOTES)
    for one in filters[:compared]:
        few.add(one)
    began = time.process_time()
    is_equal = {one.text for one in few} == _widest(filters[:compared])
    compared_s = time.process_time() - began
    began = time.process_time()
    for one in filters:
        some.remove(one)
    removed_s = time.process_time() - began
    return {
        "covering": len(roots),
        "add_s": round(added_s, 3),
        "remove_s": round(removed_s, 3),
        "everything_comes_and_goes_ms": round(storm_s / storm * 1e3, 2),
        "equal_to_brute_force": is_equal,
        "brute_force_s": round(compared_s, 1),
    }


def _widest(filters: list[Filter]) -> set[str]:
    """By comparing each with each."""
    unique = list({one.text: one for one in filters}.values())
    return {one.text for one in unique if not any(covers(other, one) for other in unique if other is not one)}
