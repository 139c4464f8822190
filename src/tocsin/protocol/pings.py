"""Pings of brokers: `GET /v1/coordinate`, which brokers and subscribers measure round trips by (pure).

Brokers show each other that they know the brokers' token, and do not send it: the peer's address comes from a
registration, and may not be encrypted. Each request has a number of its own; the answer is signed together with it, so
nobody between can answer for a peer, and an old answer is worth nothing.
"""

from __future__ import annotations

import hmac
from typing import Annotated

import msgspec

from tocsin.coordinates.coordinate import Coordinate
from tocsin.errors import InvalidValue, Unauthorised

PATH = "/v1/coordinate"
#: The scheme of the header `Authorization`, and the header of the answer's signature.
SCHEME = "Peer"
PROOF_HEADER = "Tocsin-Proof"
#: A longer answer is none. Peers with addresses of at most this length leave half of it free.
MAX_ANSWER_BYTES = 32 << 10
MAX_PEER_URL = 400
#: Peers that a broker or a subscriber is told of.
MAX_PEERS = 32
_NONCE_DIGITS = 32


class PingAnswer(msgspec.Struct, frozen=True):
    """`peers` are other brokers with their addresses, if they were asked for."""

    broker: Annotated[str, msgspec.Meta(max_length=64)]
    coordinate: Coordinate
    peers: Annotated[dict[str, str], msgspec.Meta(max_length=MAX_PEERS)] = {}


_answer = msgspec.json.Decoder(PingAnswer)


def credentials(token: str, peer: str, nonce: str) -> str:
    """The header `Authorization` of a broker that pings `peer`; `nonce` is 32 hexadecimal digits of chance."""
    return f"{SCHEME} {nonce}:{_signed(token, 'ping', peer, nonce)}"


def nonce_of(authorization: str, token: str, broker: str) -> str:
    """The number in a request to `broker`; raises Unauthorised unless a broker has made it."""
    scheme, _, given = authorization.partition(" ")
    nonce, _, proof = given.partition(":")
    expected = _signed(token, "ping", broker, nonce)
    is_hex = len(nonce) == _NONCE_DIGITS and nonce.isascii() and nonce.isalnum()
    if scheme.lower() != SCHEME.lower() or not is_hex or not _is_equal(proof, expected):
        raise Unauthorised("pings of brokers are signed with the brokers' token")
    return nonce


def proof_of(token: str, broker: str, nonce: str, body: bytes) -> str:
    """The signature of an answer."""
    return _signed(token, "pong", broker, nonce, body)


def read_answer(peer: str, body: bytes) -> PingAnswer:
    """Raises InvalidValue if it is no answer of `peer`."""
    if len(body) > MAX_ANSWER_BYTES:
        raise InvalidValue(f"the answer of {peer} has {len(body)} bytes; at most {MAX_ANSWER_BYTES} are taken")
    try:
        answer = _answer.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidValue) as exc:
        raise InvalidValue(f"the answer of {peer} is none: {exc}") from exc
    if answer.broker != peer:
        raise InvalidValue(f"{answer.broker[:64]!r} answers at the address of {peer}")
    return answer


def check_proof(token: str, peer: str, nonce: str, body: bytes, given: str) -> None:
    """Raises Unauthorised unless `peer` has signed this answer to this request."""
    if not _is_equal(given, proof_of(token, peer, nonce, body)):
        raise Unauthorised(f"the answer of {peer} is not signed with our brokers' token")


def _is_equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _signed(token: str, *parts: str | bytes) -> str:
    """Lengths stand before the parts, so that no two lists of parts are signed alike."""
    text = b"".join(
        b"%d:%s" % (len(data), data)
        for data in (part.encode("utf-8", "replace") if isinstance(part, str) else part for part in parts)
    )
    return hmac.digest(token.encode(), text, "sha256").hex()
