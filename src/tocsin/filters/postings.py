"""Postings: items under access predicates, in hash tables; a row finds the buckets that it has to look into (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple

from tocsin.filters.access import PENALTIES, Access, AccessKey, AccessOption
from tocsin.filters.buckets import Bucket, Item, Rest
from tocsin.filters.domains import Key
from tocsin.filters.normal_form import Row


class Posting(NamedTuple):
    """Where an item is kept, so that it can be removed."""

    number: int
    #: Without any, rows meet it wherever they look.
    keys: tuple[AccessKey, ...]
    rest: Rest


class Postings(Generic[Item]):
    def __init__(self) -> None:
        self._everywhere: Bucket[Item] = Bucket()
        self._points: dict[int, dict[Key | None, Bucket[Item]]] = {}
        self._others: dict[tuple[Access, int, int], dict[Key, Bucket[Item]]] = {}
        self._numbers = 0
        #: Whether there is any item.
        self.is_used = False

    def cheapest_first(self, options: Sequence[AccessOption]) -> list[AccessOption | None]:
        """In the order of how many others a row meets there, as far as is known now; at last, None: it meets all."""
        return [*sorted(options, key=self._cost), None]

    def add(self, item: Item, keys: tuple[AccessKey, ...], rest: Rest) -> Posting:
        self._numbers += 1
        self.is_used = True
        posting = Posting(self._numbers, keys, rest)
        for bucket in self._buckets_of(keys):
            bucket.add(posting.number, item, rest)
        return posting

    def remove(self, posting: Posting) -> None:
        for bucket in self._buckets_of(posting.keys):
            bucket.remove(posting.number, posting.rest)
        for key in posting.keys:
            table = self._table(key)
            if not table[key.value].size:
                del table[key.value]
            if not table:
                if key.kind is Access.POINT:
                    del self._points[key.column]
                else:
                    del self._others[key[:3]]
        self.is_used = bool(self._everywhere.size or self._points or self._others)

    def found_by(self, row: Row) -> list[Item]:
        """All items that a row fulfils the conditions of, as far as they are known here."""
        found = self._everywhere.collect(row, [])
        for column, table in self._points.items():
            if (bucket := table.get(row[column])) is not None:
                found = bucket.collect(row, found)
        for (kind, column, size), table in self._others.items():
            if (key := row[column]) is not None:
                for bucket in _buckets_at(kind, size, table, key):
                    found = bucket.collect(row, found)
        return found

    def _cost(self, option: AccessOption) -> int:
        return sum(PENALTIES[key.kind] + 1 + self._size(key) for key in option.keys)

    def _size(self, key: AccessKey) -> int:
        table = self._points.get(key.column) if key.kind is Access.POINT else self._others.get(key[:3])
        bucket = table.get(key.value) if table else None
        return bucket.size if bucket else 0

    def _buckets_of(self, keys: tuple[AccessKey, ...]) -> Iterator[Bucket[Item]]:
        if not keys:
            yield self._everywhere
        for key in keys:
            table = self._table(key)
            bucket = table.get(key.value)
            if bucket is None:
                bucket = table[key.value] = Bucket()
            yield bucket

    def _table(self, key: AccessKey) -> dict[Key | None, Bucket[Item]]:
        if key.kind is Access.POINT:
            return self._points.setdefault(key.column, {})
        return self._others.setdefault(key[:3], {})


def _buckets_at(kind: Access, size: int, table: dict[Key, Bucket[Item]], key: Key) -> Iterator[Bucket[Item]]:
    match kind:
        case Access.CELL:
            found = table.get(key >> size)
        case Access.PREFIX:
            found = table.get(key[:size])
        case Access.SUFFIX:
            found = table.get(key[-size:])
        case _:
            yield from _inside(size, table, key)
            return
    if found is not None:
        yield found


def _inside(size: int, table: dict[Key, Bucket[Item]], key: str) -> Iterator[Bucket[Item]]:
    """By each piece of the text once; or by each entry of the table, if these are fewer."""
    if len(key) - size > len(table):
        yield from (bucket for piece, bucket in table.items() if piece in key)
        return
    pieces = {key[at : at + size] for at in range(len(key) - size + 1)}
    yield from (table[piece] for piece in pieces if piece in table)
