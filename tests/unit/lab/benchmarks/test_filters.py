"""The benchmark of filters: its workload is the paper's, and its peer finds what the index finds."""

from __future__ import annotations

from collections import Counter

import msgspec

from tocsin.filters.index import FilterIndex
from tocsin.filters.language import parse
from tocsin.filters.rows import RowEncoder
from tocsin.lab.benchmarks.filters import _AllAtOnce, _covering_of
from tocsin.lab.benchmarks.quote_filters import QUOTES, Market, QuoteFilter


def kind(one: QuoteFilter) -> str:
    parts = (one.symbol, one.high_above, one.low_below, one.volume_above)
    return "".join("-" if part is None else letter for letter, part in zip("shlv", parts, strict=True))


def test_the_mix_of_filters_is_the_papers() -> None:
    """Within two points of each share."""
    counts = Counter(kind(one) for one in Market(1).filters(10_000))
    shares = {"sh--": 20, "s-l-": 20, "s--v": 20, "s---": 34, "---v": 5, "----": 1}
    assert all(abs(counts[name] / 100 - share) < 2 for name, share in shares.items())
    assert sum(counts.values()) == sum(counts[name] for name in shares)


def test_records_have_the_size_that_is_said_and_follow_from_the_seed() -> None:
    """400 bytes each."""
    assert {len(record) for record in Market(1).records(50)} == {400}
    assert Market(1).records(5) == Market(1).records(5) != Market(2).records(5)


def test_the_peer_finds_what_the_index_finds() -> None:
    """Otherwise the ratio of the two would say nothing."""
    market = Market(1)
    drawn = market.filters(500)
    index: FilterIndex[int] = FilterIndex(QUOTES)
    for name, one in enumerate(drawn):
        index.add(name, parse(one.where(), QUOTES))
    peer, encode = _AllAtOnce(drawn), RowEncoder(QUOTES)
    for record in market.records(50):
        quote = msgspec.json.decode(record)
        assert sorted(index.matching(encode(quote))) == peer.matching(quote)


def test_covering_sets_are_compared_with_comparing_each_with_each() -> None:
    """Bands that hardly cover each other, and limits that mostly do."""
    market = Market(1)
    for texts in ([market.band() for _ in range(100)], [one.where() for one in market.narrow_filters(100)]):
        assert _covering_of([parse(text, QUOTES) for text in texts], 100)["equal_to_brute_force"]
