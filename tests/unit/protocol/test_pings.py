"""Pings: who is believed, and which answers are none."""

from __future__ import annotations

import msgspec
import pytest

from tocsin.coordinates.coordinate import ORIGIN
from tocsin.errors import InvalidValue, Unauthorised
from tocsin.protocol.pings import (
    MAX_ANSWER_BYTES,
    PingAnswer,
    check_proof,
    credentials,
    nonce_of,
    proof_of,
    read_answer,
)

_NONCE = "0123456789abcdef" * 2
_BODY = msgspec.json.encode(PingAnswer("north", ORIGIN))


def test_a_broker_believes_who_knows_its_token() -> None:
    """The token itself is not in the request."""
    shown = credentials("secret", "north", _NONCE)
    assert "secret" not in shown
    assert nonce_of(shown, "secret", "north") == _NONCE


@pytest.mark.parametrize(
    ("shown", "token"),
    [
        (credentials("other", "north", _NONCE), "secret"),
        (credentials("secret", "south", _NONCE), "secret"),  # It was sent to another broker.
        (credentials("secret", "north", _NONCE), ""),
        (credentials("secret", "north", "short"), "secret"),
        ("", "secret"),
        ("Peer", "secret"),
        (f"Peer {_NONCE}", "secret"),
        (f"Peer {_NONCE}:", "secret"),
        (f"Peer {_NONCE}:é\udc80", "secret"),
        ("Bearer secret", "secret"),
    ],
)
def test_nobody_else_is_believed(shown: str, token: str) -> None:
    """Whatever is shown: another token, another broker's request, or no signature at all."""
    with pytest.raises(Unauthorised):
        nonce_of(shown, token, "north")


def test_an_answer_counts_for_its_request_alone() -> None:
    """Neither another body, broker, request nor token goes with the same signature."""
    proof = proof_of("secret", "north", _NONCE, _BODY)
    check_proof("secret", "north", _NONCE, _BODY, proof)
    for changed in (
        ("other", "north", _NONCE, _BODY),
        ("secret", "south", _NONCE, _BODY),
        ("secret", "north", _NONCE[::-1], _BODY),
        ("secret", "north", _NONCE, _BODY + b" "),
    ):
        with pytest.raises(Unauthorised):
            check_proof(*changed, proof)
    with pytest.raises(Unauthorised):
        check_proof("secret", "north", _NONCE, _BODY, "é")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 20_000,
        b'{"broker":"north"}',
        b'{"broker":"north","coordinate":{"vector":[1,2]}}',
        b'{"broker":"north","coordinate":{"vector":[1,2,3,4,5,6,7,1e9]}}',
        b'{"broker":"north","coordinate":{"height_ms":-1}}',
        b'{"broker":"north","coordinate":{"height_ms":NaN}}',
        b'{"broker":"south","coordinate":{}}',
        b'{"broker":"north","coordinate":{},"peers":{' + b",".join(b'"%d":""' % one for one in range(40)) + b"}}",
        b" " * (MAX_ANSWER_BYTES + 1),
    ],
)
def test_what_is_no_answer_of_that_broker_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidValue, match="north"):
        read_answer("north", body)


def test_an_answer_has_the_coordinate_and_other_brokers() -> None:
    answer = PingAnswer("north", ORIGIN, {"south": "http://s"})
    assert read_answer("north", msgspec.json.encode(answer)) == answer
