"""What an application gets: results, and the exits of channels WITH EXITS."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tocsin.cli.subscribe import _print
from tocsin.client import Subscription
from tocsin.client.notifications import ChannelResult
from tocsin.protocol import messages


class Near:
    """As much of a subscription as a notification shows."""

    channel = "Near"
    parameters = {"user_id": "ann"}  # noqa: RUF012 - never changed

    def __str__(self) -> str:
        return "Near(user_id => 'ann')"


class Arrived(ChannelResult):
    def __init__(self, subscription: Subscription, message: messages.Notification) -> None:
        super().__init__(subscription, message)
        self.subscription = subscription


def arrived(payload: str, **fields: str) -> Any:
    known = {"type": "notification", "subscription": 7, "channel": "Near", "position": "7-9", "committed_at_us": 1}
    text = json.dumps({**known, **fields, "payload": json.loads(payload)}, separators=(",", ":"))
    message = messages.decode_from_broker(text)
    assert isinstance(message, messages.Notification)
    return Arrived(cast(Subscription, Near()), message)


def test_an_exit_has_the_key_of_the_result_that_it_ends() -> None:
    """Channels without exits have results only, which have no key."""
    key = "5f2b0c6ad1e94b7f8a3d6c1e0b9f7a24"
    plain, result, gone = (
        arrived("{}"),
        arrived('{"id":1}', kind="result", key=key),
        arrived("{}", kind="exit", key=key),
    )
    assert [(one.kind, one.key) for one in (plain, result, gone)] == [("result", ""), ("result", key), ("exit", key)]
    assert (gone.payload, repr(gone)) == ({}, "<Notification Near 7-9 exit {}>")


def test_the_command_line_shows_what_no_longer_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """With the beginning of the key; in JSON as it is. What has no key looks as ever."""
    key = "5f2b0c6ad1e94b7f8a3d6c1e0b9f7a24"
    for one in (arrived('{"id":1}'), arrived('{"id":1}', kind="result", key=key), arrived("{}", kind="exit", key=key)):
        _print(one, as_json=False)
    lines = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "Near(user_id => 'ann') {\"id\":1}",
        "Near(user_id => 'ann') {\"id\":1} 5f2b0c6a",
        "Near(user_id => 'ann') no longer holds 5f2b0c6a",
    ]
    _print(arrived("{}", kind="exit", key=key), as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert (shown["kind"], shown["key"], shown["payload"]) == ("exit", key, {})
