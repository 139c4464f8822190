"""Receipts: short tokens that say where in the landing log a request's records lie (pure).

A receipt carries all its facts, so none has to be stored. It is Crockford base32: safe in URLs, spoken aloud and typed;
letters that look like digits are read as those digits, hyphens and case don't matter. It proves nothing: the server
checks that the position exists.
"""

from __future__ import annotations

import base64
from binascii import crc_hqx
from dataclasses import dataclass

from tocsin.errors import InvalidValue

_RFC4648 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_CROCKFORD = b"0123456789abcdefghjkmnpqrstvwxyz"
_TO_CROCKFORD = bytes.maketrans(_RFC4648, _CROCKFORD)
_FROM_CROCKFORD = bytes.maketrans(_CROCKFORD + b"oil", _RFC4648 + b"ABB")
_READABLE = frozenset((_CROCKFORD + b"oil").decode())

#: Three numbers of up to ten bytes each and the check digits come to 52 characters; more is no receipt.
_MAX_CHARACTERS = 64


@dataclass(frozen=True, slots=True, order=True)
class Receipt:
    """`count` records, in the landing log from `position` up to `end`.

    >>> str(Receipt(position=4096, end=4700, count=3))
    'g0gdr103z760'
    >>> Receipt.parse("GOGD-R1O3-Z76O")
    Receipt(position=4096, end=4700, count=3)
    """

    position: int
    end: int
    count: int

    def __str__(self) -> str:
        facts = b"".join(map(_varint, (self.position, self.end - self.position, self.count)))
        # 16 bits of CRC catch every single wrong character and every swap of neighbours (bursts of up to 10 bits).
        checked = facts + crc_hqx(facts, 0).to_bytes(2, "big")
        return base64.b32encode(checked).rstrip(b"=").translate(_TO_CROCKFORD).decode()

    @staticmethod
    def parse(text: str) -> Receipt:
        """The receipt that `text` stands for; `InvalidValue` if it is mistyped or not a receipt."""
        compact = text.replace("-", "").lower()
        if not compact or len(compact) > _MAX_CHARACTERS or not _READABLE.issuperset(compact):
            raise InvalidValue(f"not a receipt: {text[:80]!r}; expected letters and digits as given by a publish")
        letters = compact.encode().translate(_FROM_CROCKFORD)
        try:
            checked = base64.b32decode(letters + b"=" * (-len(letters) % 8))
            position, length, count = _read_varints(checked[:-2])
        except ValueError as exc:
            raise InvalidValue(f"not a receipt: {text!r}; it is cut short or has characters too many") from exc
        receipt = Receipt(position, position + length, count)
        # Comparing with the one right spelling also checks the unused bits of the last character.
        if str(receipt).encode() != letters.translate(_TO_CROCKFORD):
            raise InvalidValue(f"not a receipt: {text!r}; its check digits don't match, so a character is wrong")
        return receipt


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _read_varints(data: bytes) -> list[int]:
    numbers, current, shift = [], 0, 0
    for byte in data:
        current |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            numbers.append(current)
            current, shift = 0, 0
    if len(numbers) != 3 or shift:
        raise ValueError("expected three numbers")
    return numbers
