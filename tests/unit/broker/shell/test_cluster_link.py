"""What a broker makes of the results that it pulls."""

from __future__ import annotations

import json

import pytest

from tocsin.broker.shell.cluster_link import _deliveries
from tocsin.protocol.frames import text_of
from tocsin.protocol.messages import HistoryGone, Notification, decode_from_broker


def _line(sequence: int, size_bytes: int) -> bytes:
    return json.dumps(
        {
            "subscription": 7,
            "channel": "C",
            "position": f"7-{sequence}",
            "committed_at_us": 1,
            "payload": {"text": "x" * size_bytes},
        }
    ).encode()


def test_a_result_that_is_too_large_is_told_as_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """No subscriber could take it: to send it would end every connection, whenever it comes back. The rest is sent."""
    monkeypatch.setattr("tocsin.broker.shell.cluster_link.MAX_MESSAGE_BYTES", 1000)
    found = _deliveries(b"\n".join([_line(1, 10), _line(2, 2000), _line(3, 10)]))
    assert [one.sequence for one in found] == [1, 2, 3]
    first, gap, last = (decode_from_broker(text_of(one.wire)) for one in found)
    assert isinstance(first, Notification)
    assert isinstance(gap, HistoryGone)
    assert (gap.subscription, gap.position) == (7, "7-2")
    assert "bytes" in gap.message
    assert isinstance(last, Notification)


def test_payloads_are_found_in_what_is_sent() -> None:
    """Whatever their size; what is no result has none."""
    lines = [_line(1, 10), _line(2, 300), _line(3, 70_000), _line(4, 1)[:-25] + b'"payload":"no such zone"}']
    found = _deliveries(b"\n".join(lines))
    assert [len(bytes(one.payload() or b"")) for one in found[:3]] == [22, 312, 70_012]
    assert found[3].payload() is None
