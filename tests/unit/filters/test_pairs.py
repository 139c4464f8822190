"""Pairs of letters: what covers a filter has no others than the filter."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tocsin.errors import StatementError
from tocsin.filters.covering import covers
from tocsin.filters.filter import Filter
from tocsin.filters.pairs import pairs_of
from unit.filters.quotes import filter_of

_TEXTS = st.text("ab", min_size=1, max_size=4)
_CONDITIONS = st.one_of(
    st.builds(
        "{} LIKE '{}{}{}'".format, st.just("name"), st.sampled_from(["", "%"]), _TEXTS, st.sampled_from(["", "%"])
    ),
    st.builds("{} NOT LIKE '%{}%'".format, st.just("name"), _TEXTS),
    st.builds("{} {} '{}'".format, st.just("name"), st.sampled_from(["<", ">=", "="]), _TEXTS),
    st.builds("name IN ('{}', '{}')".format, _TEXTS, _TEXTS),
    st.sampled_from(["name IS NULL", "volume > 5", "volume <= 5", "TRUE"]),
)
_FILTERS = st.recursive(
    _CONDITIONS,
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner),
    max_leaves=5,
)


def _read(text: str) -> Filter | None:
    try:
        return filter_of(text)
    except StatementError:
        return None  # Nothing matches it.


@given(_FILTERS, _FILTERS)
def test_what_covers_has_no_other_pairs(one: str, other: str) -> None:
    """So nothing that covers is passed over."""
    # A filter covers what it is narrowed to.
    first, second, both = _read(one), _read(other), _read(f"{one} AND {other}")
    assume(first is not None and second is not None)
    assert first is not None
    assert second is not None
    for wide, narrow in ((first, second), (second, first), *(((first, both), (second, both)) if both else ())):
        assert not covers(wide, narrow) or not pairs_of(wide) & ~pairs_of(narrow)


def test_texts_with_other_letters_have_other_pairs() -> None:
    """Mostly: there are 64 bits. Of different columns they are different too."""
    words = ["flood", "fire", "quake", "storm", "outage", "riot"]
    bits = [pairs_of(filter_of(f"{column} LIKE '%{word}%'")) for column in ("name", "symbol") for word in words]
    apart = [one & ~other != 0 for one in bits for other in bits if one != other]
    assert len(set(bits)) == 12
    assert all(apart)
