"""Receipts: short, typed by people, and never mistaken for another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.feeds.core.receipts import Receipt
from tocsin.errors import InvalidValue

RECEIPTS = st.builds(
    lambda position, length, count: Receipt(position, position + length, count),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**32),
    st.integers(0, 2**32),
)


@given(RECEIPTS)
def test_parse_undoes_str(receipt: Receipt) -> None:
    """A receipt carries all its facts."""
    assert Receipt.parse(str(receipt)) == receipt


@given(RECEIPTS, st.data())
def test_one_wrong_character_is_noticed(receipt: Receipt, data: st.DataObject) -> None:
    """A typo never leads to somebody else's records."""
    text = str(receipt)
    index = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("0123456789abcdefghjkmnpqrstvwxyz").filter(lambda c: c != text[index]))
    with pytest.raises(InvalidValue):
        Receipt.parse(text[:index] + other + text[index + 1 :])


@given(RECEIPTS, st.data())
def test_swapped_neighbours_are_noticed(receipt: Receipt, data: st.DataObject) -> None:
    """The commonest typing mistake."""
    text = str(receipt)
    index = data.draw(st.integers(0, len(text) - 2))
    swapped = text[:index] + text[index + 1] + text[index] + text[index + 2 :]
    if swapped != text:
        with pytest.raises(InvalidValue):
            Receipt.parse(swapped)


@given(st.text(max_size=80))  # The chance that one is a receipt is nil.
def test_any_other_text_is_refused_clearly(text: str) -> None:
    """No text crashes the parser."""
    with pytest.raises(InvalidValue, match="not a receipt"):
        Receipt.parse(text)


def test_receipts_are_short_and_forgiving() -> None:
    """Case, hyphens and look-alike letters don't matter."""
    receipt = Receipt(10 * 2**40, 10 * 2**40 + 200_000, 500)
    text = str(receipt)
    assert len(text) <= 24
    assert text.isalnum()
    spoken = "-".join(text.upper().replace("0", "O").replace("1", "I")[i : i + 4] for i in range(0, len(text), 4))
    assert Receipt.parse(spoken) == receipt
