"""Request bodies become NDJSON: JSON, NDJSON and CloudEvents in, one record per line out (pure).

A malformed JSON document is refused as a whole, since nothing shows where its records begin. A malformed *line* of
NDJSON is accepted with the rest and becomes a dead letter later. This module checks records neither against a schema
nor against the size limit of a record.

A line is blank when it holds only spaces, tabs and carriage returns; blank lines are no records.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar
from urllib.parse import unquote

import msgspec
import numpy as np

from tocsin.errors import InvalidValue, TooLarge

#: Longer keys are refused: they are kept for a day, in memory for a while, and no honest key needs more.
MAX_KEY_CHARACTERS = 255
#: Records smaller than 8 bytes are useless; this bounds the work that a body of "{}{}{}…" can cause.
MAX_RECORDS = 1_000_000
#: gzip allows several members one after the other; each costs a copy of the rest. bgzip makes 128 of 8 MB.
_MAX_GZIP_MEMBERS = 256

_Events = TypeVar("_Events")
_NOT_BLANK = re.compile(rb"[^ \t\r\n][^\n]*")


@dataclass(frozen=True, slots=True)
class DecodedBody:
    """`count` records, one per non-blank line of `ndjson`. `key` is the idempotency key, if there is one."""

    ndjson: bytes
    count: int
    key: str | None = None


def decode_body(
    content_type: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    max_body_bytes: int,
    max_records: int = MAX_RECORDS,
) -> DecodedBody:
    """The records of a publish request.

    `max_body_bytes` holds before and after decompression. The key is the `Idempotency-Key` header, or comes
    from the `source` and `id` of CloudEvents.

    >>> decode_body("application/json", {}, b'[{"id": 1}, {"id": 2}]', max_body_bytes=100)
    DecodedBody(ndjson=b'{"id": 1}\\n{"id": 2}', count=2, key=None)
    """
    fields = {name.lower(): value for name, value in headers.items()}
    media_type = _media_type(content_type)
    if len(body) > max_body_bytes:
        raise TooLarge(f"the body has {len(body)} bytes; at most {max_body_bytes} are taken in one request")
    plain = _decompress(fields.get("content-encoding", ""), body, max_body_bytes).removeprefix(BOM_UTF8)
    decoded = _DECODERS[media_type](plain)
    if decoded.count == 0:
        raise InvalidValue("the body has no records")
    if decoded.count > max_records:
        raise TooLarge(f"the body has {decoded.count} records; at most {max_records} are taken in one request")
    key = fields.get("idempotency-key")
    if key is not None:
        check_key(key)
    elif "ce-specversion" in fields:
        key = _binary_event_key(fields)
    return DecodedBody(decoded.ndjson, decoded.count, decoded.key if key is None else key)


def check_key(key: str) -> None:
    """Refuses an idempotency key that is empty or too long."""
    if not 1 <= len(key) <= MAX_KEY_CHARACTERS:
        raise InvalidValue(f"an idempotency key has 1 to {MAX_KEY_CHARACTERS} characters; this one has {len(key)}")


def count_records(ndjson: bytes) -> int:
    """How many non-blank lines there are.

    Clean NDJSON, where no line begins with white space, is counted at memory speed.
    """
    characters = np.frombuffer(ndjson, np.uint8)
    line_ends = np.flatnonzero(characters == ord("\n"))
    starts = line_ends + 1
    if starts.size and starts[-1] == characters.size:
        starts = starts[:-1]
    first = characters[:1]
    if (characters[starts] > ord(" ")).all() and (first > ord(" ")).all():
        return int(starts.size + first.size)
    return sum(1 for _ in _NOT_BLANK.finditer(ndjson))


def _ndjson(body: bytes) -> DecodedBody:
    return DecodedBody(spell_out(body), count_records(body))


def spell_out(ndjson: bytes) -> bytes:
    """Lines that aren't UTF-8, with each invalid byte written as `\\x…`, which is not JSON either: such a line becomes
    a dead letter that shows the bytes. Spark would replace them with question marks.

    >>> spell_out(b'{"a": "\\xff"}')
    b'{"a": "\\\\xff"}'
    """
    try:
        ndjson.decode()
    except UnicodeDecodeError:
        return b"\n".join(line.decode(errors="backslashreplace").encode() for line in ndjson.split(b"\n"))
    return ndjson


def _json(body: bytes, what: str = "the body") -> DecodedBody:
    """An object is one record, an array many."""
    try:
        body.decode()
        if body.lstrip()[:1] == b"[":
            lines = [_on_one_line(bytes(record)) for record in msgspec.json.decode(body, type=list[msgspec.Raw])]
        else:
            lines = [_on_one_line(bytes(msgspec.json.decode(body, type=msgspec.Raw)))]
            if not lines[0].startswith(b"{"):
                raise InvalidValue(f"{what} must be a JSON object or an array of objects, not {lines[0][:40]!r}")
    except UnicodeDecodeError as exc:
        raise InvalidValue(f"{what} isn't UTF-8: byte {exc.start}") from exc
    except msgspec.DecodeError as exc:
        raise InvalidValue(f"{what} isn't valid JSON: {exc}") from exc
    except RecursionError as exc:
        raise InvalidValue(f"{what} is nested too deeply") from exc
    return DecodedBody(b"\n".join(lines), len(lines))


def _on_one_line(record: bytes) -> bytes:
    """Pretty-printed JSON has line breaks; within strings they are always escaped, so all of them can be removed."""
    record = record.strip()
    return msgspec.json.format(record, indent=-1) if b"\n" in record else record


class _Event(msgspec.Struct):
    """The parts of a CloudEvent in JSON that we read; other attributes are ignored."""

    specversion: str
    id: str
    source: str
    type: str
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    data_base64: str | None = None

    def records(self) -> DecodedBody:
        what = f"the data of event {self.id!r}"
        if isinstance(self.data, msgspec.Raw):
            return _json(bytes(self.data), what)
        if self.data_base64 is None:
            raise InvalidValue(f"event {self.id!r} has no data")
        try:
            return _json(base64.b64decode(self.data_base64, validate=True), what)
        except binascii.Error as exc:
            raise InvalidValue(f"{what} isn't valid base64: {exc}") from exc


def _structured_event(body: bytes) -> DecodedBody:
    event = _decode_events(body, _Event)
    records = event.records()
    return DecodedBody(records.ndjson, records.count, _event_key(event.source, event.id))


def _event_batch(body: bytes) -> DecodedBody:
    """A batch's key is made from the keys of all its events, so the same batch sent again counts as a repeat."""
    events = _decode_events(body, list[_Event])
    parts = [event.records() for event in events]
    identities = "\n".join(f"{event.source} {event.id}" for event in events)
    key = f"ce-batch {_short_hash(identities)}"
    return DecodedBody(b"\n".join(part.ndjson for part in parts), sum(part.count for part in parts), key)


def _decode_events(body: bytes, type_: type[_Events]) -> _Events:
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise InvalidValue(f"the body isn't a CloudEvent in JSON, or a batch of them: {exc}") from exc
    except RecursionError as exc:
        raise InvalidValue("the body is nested too deeply") from exc


def _binary_event_key(fields: Mapping[str, str]) -> str:
    """The body is the event's data; its attributes come in `ce-` headers, percent-encoded."""
    if missing := [name for name in ("ce-id", "ce-source", "ce-type") if not fields.get(name)]:
        raise InvalidValue(f"a CloudEvent in binary mode needs the headers {', '.join(missing)}")
    return _event_key(unquote(fields["ce-source"]), unquote(fields["ce-id"]))


def _event_key(source: str, event_id: str) -> str:
    """CloudEvents promise that source and id together are unique. A source is a URI and has no spaces."""
    key = f"ce {source} {event_id}"
    return key if len(key) <= MAX_KEY_CHARACTERS else f"ce# {_short_hash(key)}"


def _short_hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=20).hexdigest()


_DECODERS: dict[str, Callable[[bytes], DecodedBody]] = {
    "application/json": _json,
    "application/x-ndjson": _ndjson,
    "application/ndjson": _ndjson,
    "application/jsonl": _ndjson,
    "application/cloudevents+json": _structured_event,
    "application/cloudevents-batch+json": _event_batch,
}


def _media_type(content_type: str) -> str:
    media_type, _, parameters = content_type.partition(";")
    media_type = media_type.strip().lower()
    if media_type not in _DECODERS:
        given = f"the content type {media_type!r} isn't taken" if media_type else "the content type is missing"
        raise InvalidValue(f"{given}; send one of {', '.join(_DECODERS)}")
    name, _, charset = parameters.strip().lower().partition("=")
    if name == "charset" and charset.strip('"') not in ("utf-8", "utf8", "us-ascii"):
        raise InvalidValue(f"the charset {charset!r} isn't taken; send UTF-8")
    return media_type


def _decompress(encoding: str, body: bytes, max_bytes: int) -> bytes:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise InvalidValue(f"the content encoding {encoding!r} isn't taken; send gzip or none")
    plain = b""
    try:
        for _ in range(_MAX_GZIP_MEMBERS):
            member = zlib.decompressobj(wbits=31)
            plain += member.decompress(body, max_bytes + 1 - len(plain))
            if len(plain) > max_bytes:
                raise TooLarge(f"the body decompresses to more than {max_bytes} bytes, the most that is taken")
            if not member.eof:
                raise InvalidValue("the gzip body is cut short")
            body = member.unused_data
            if not body:
                return plain
    except zlib.error as exc:
        raise InvalidValue(f"the body isn't valid gzip: {exc}") from exc
    raise InvalidValue(f"the gzip body has more than {_MAX_GZIP_MEMBERS} members; compress it as one")
