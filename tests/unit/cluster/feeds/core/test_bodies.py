"""Bodies: every accepted kind becomes one record per line; everything else gets a clear error."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.feeds.core.bodies import DecodedBody, check_key, count_records, decode_body
from tocsin.errors import InvalidValue, RequestError, TooLarge

EVENT = {"specversion": "1.0", "id": "7", "source": "/sensors/1", "type": "report"}


def decode(
    content_type: str, body: bytes, headers: Mapping[str, str] | None = None, limit: int = 10_000
) -> DecodedBody:
    return decode_body(content_type, headers or {}, body, max_body_bytes=limit, max_records=100)


def test_an_object_is_one_record_and_an_array_many() -> None:
    """Line breaks of pretty-printed JSON go; escaped ones in strings stay."""
    assert decode("application/json", b'{\n  "a": 1,\n  "b": "x\\ny"\n}') == DecodedBody(b'{"a":1,"b":"x\\ny"}', 1)
    assert decode("application/json; charset=UTF-8", b'[{"a":1},\n{"a":\r\n2}]').ndjson == b'{"a":1}\n{"a":2}'


def test_numbers_keep_their_digits() -> None:
    """Records are passed on as text, never through floats."""
    assert decode("application/json", b'[{"a": 1.10,\n"b": 12345678901234567890}]').ndjson == (
        b'{"a":1.10,"b":12345678901234567890}'
    )


def test_ndjson_passes_untouched_malformed_lines_included() -> None:
    """A bad line goes to the dead letters later; it doesn't stop the good ones."""
    body = b'{"a":1}\nnot json\n\n  \r\n{"a":2}'
    assert decode("application/x-ndjson", body) == DecodedBody(body, 3)


@pytest.mark.parametrize("media_type", ["application/jsonl", "application/ndjson", "Application/X-NDJSON"])
def test_other_names_of_ndjson(media_type: str) -> None:
    """Tools don't agree on a name."""
    assert decode(media_type, b"{}\n{}\n").count == 2


@given(st.binary(max_size=40) | st.text("a \t\r\n", max_size=40).map(str.encode))
def test_counting_agrees_with_splitting(body: bytes) -> None:
    """The fast count is exact."""
    assert count_records(body) == sum(1 for line in body.split(b"\n") if line.strip(b" \t\r"))


@given(
    st.lists(st.dictionaries(st.text(), st.none() | st.integers() | st.text()), min_size=1), st.sampled_from([None, 2])
)
def test_every_json_array_becomes_its_records(records: list[object], indent: int | None) -> None:
    """One line per element, each the same value."""
    decoded = decode_body("application/json", {}, json.dumps(records, indent=indent).encode(), max_body_bytes=1 << 20)
    assert [json.loads(line) for line in decoded.ndjson.split(b"\n")] == records
    assert decoded.count == count_records(decoded.ndjson) == len(records)


def test_a_binary_event_is_its_data() -> None:
    """Source and id are the key; percent-encoding is undone so that both modes agree."""
    headers = {"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/sensors%2F1", "Ce-Type": "report"}
    assert decode("application/json", b'{"a":1}', headers) == DecodedBody(b'{"a":1}', 1, "ce /sensors/1 7")
    with pytest.raises(InvalidValue, match="ce-source"):
        decode("application/json", b"{}", {"ce-specversion": "1.0", "ce-id": "7", "ce-type": "t"})


def test_a_structured_event_is_its_data() -> None:
    """As JSON, or as base64 of JSON."""
    plain = json.dumps({**EVENT, "data": {"a": 1}}, indent=1).encode()
    coded = json.dumps({**EVENT, "data_base64": base64.b64encode(b'{"a":1}').decode()}).encode()
    expected = DecodedBody(b'{"a":1}', 1, "ce /sensors/1 7")
    assert decode("application/cloudevents+json", plain) == expected
    assert decode("application/cloudevents+json", coded) == expected


def test_a_batch_of_events_has_a_key_of_its_own() -> None:
    """The same batch again is a repeat, another is not."""
    batches = [[{**EVENT, "id": i, "data": {"a": 1}} for i in ids] for ids in ("12", "12", "13")]
    first, again, other = (
        decode("application/cloudevents-batch+json", json.dumps(batch).encode()) for batch in batches
    )
    assert first.ndjson == b'{"a": 1}\n{"a": 1}'
    assert first.key == again.key != other.key


def test_an_explicit_key_wins() -> None:
    """The publisher knows best."""
    body = json.dumps({**EVENT, "data": {}}).encode()
    assert decode("application/cloudevents+json", body, {"Idempotency-Key": "mine"}).key == "mine"


def test_long_event_identities_make_short_keys() -> None:
    """A key made by us is never refused for its length, and still tells events apart."""
    keys = {
        decode("application/cloudevents+json", json.dumps({**EVENT, "id": "x" * 300 + end, "data": {}}).encode()).key
        for end in "ab"
    }
    assert len(keys) == 2
    for key in keys:
        check_key(key or "")


def test_gzip_is_taken_in_one_member_or_several() -> None:
    """Several members are one body, as gzip says."""
    gzipped = gzip.compress(b'{"a":') + gzip.compress(b"1}")
    assert decode("application/json", gzipped, {"content-encoding": "gzip"}).ndjson == b'{"a":1}'


@pytest.mark.parametrize(
    ("content_type", "body", "headers", "words"),
    [
        ("text/plain", b"{}", {}, "'text/plain' isn't taken; send one of application/json"),
        ("", b"{}", {}, "content type is missing"),
        ("application/json; charset=latin-1", b"{}", {}, "UTF-8"),
        ("application/json", b"", {}, "isn't valid JSON"),
        ("application/json", b'{"a":', {}, "isn't valid JSON"),
        ("application/json", b"{} {}", {}, "isn't valid JSON"),
        ("application/json", b'{"a":"\xff"}', {}, "isn't UTF-8: byte 6"),
        ("application/json", b"5", {}, "must be a JSON object"),
        ("application/json", b"[]", {}, "no records"),
        ("application/x-ndjson", b" \n\r\n", {}, "no records"),
        ("application/json", b'{"a":' * 2000, {}, "nested too deeply"),
        ("application/json", b"[" * 9000, {}, "nested too deeply"),
        ("application/cloudevents+json", b'{"specversion":"1.0","id":"1"}', {}, "missing required field"),
        ("application/cloudevents+json", json.dumps(EVENT).encode(), {}, "event '7' has no data"),
        ("application/cloudevents+json", json.dumps({**EVENT, "data": 5}).encode(), {}, "data of event '7'"),
        ("application/cloudevents+json", json.dumps({**EVENT, "data_base64": "%"}).encode(), {}, "base64"),
        ("application/json", b"{}", {"content-encoding": "br"}, "gzip or none"),
        ("application/json", b"{}", {"content-encoding": "gzip"}, "isn't valid gzip"),
        ("application/json", gzip.compress(b"{}", mtime=0)[:-2], {"content-encoding": "gzip"}, "cut short"),
        ("application/json", gzip.compress(b"", mtime=0) * 300, {"content-encoding": "gzip"}, "members"),
        ("application/json", b"{}", {"idempotency-key": ""}, "1 to 255"),
        ("application/json", b"{}", {"idempotency-key": "x" * 256}, "1 to 255"),
    ],
)
def test_bad_requests_hear_what_is_wrong(content_type: str, body: bytes, headers: dict[str, str], words: str) -> None:
    """The message names the fault."""
    with pytest.raises(InvalidValue) as caught:
        decode(content_type, body, headers)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("content_type", "body", "headers"),
    [
        ("application/x-ndjson", b"x" * 10_001, {}),
        ("application/x-ndjson", b"x\n" * 101, {}),
        ("application/json", json.dumps([{}] * 101).encode(), {}),
        ("application/json", gzip.compress(b"{}" + b" " * 10_000, mtime=0), {"content-encoding": "gzip"}),
    ],
)
def test_limits(content_type: str, body: bytes, headers: dict[str, str]) -> None:
    """Bytes, before and after decompression, and records."""
    with pytest.raises(TooLarge):
        decode(content_type, body, headers)


@given(
    st.sampled_from(["application/json", "application/x-ndjson", "application/cloudevents+json"]),
    st.binary(max_size=200),
    st.sampled_from([{}, {"content-encoding": "gzip"}]),
)
def test_no_body_crashes_the_decoder(content_type: str, body: bytes, headers: dict[str, str]) -> None:
    """Whatever arrives, it is records or a request error."""
    try:
        decoded = decode(content_type, body, headers)
    except RequestError:
        return
    assert decoded.count == count_records(decoded.ndjson) > 0
