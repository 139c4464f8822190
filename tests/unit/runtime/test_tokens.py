"""Tokens: what was signed with our key is believed, and nothing else."""

from __future__ import annotations

import base64
import dataclasses
import hmac
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tocsin.errors import ClusterFailure, InvalidValue, Unauthorised
from tocsin.runtime.tokens import Identity, TokenChecker, TokenSigner

NOW_US = 1_700_000_000_123_457
ANN = Identity("ann", "medic", NOW_US, NOW_US + 3_600_000_000)
KEY = Ed25519PrivateKey.generate()
SIGNER = TokenSigner(KEY)
CHECKER = TokenChecker(SIGNER.public_key())
CLAIMS = {
    "iss": "tocsin-coordinator",
    "aud": "tocsin",
    "sub": "ann",
    "perm": "medic",
    "iat": NOW_US / 1e6,
    "exp": NOW_US / 1e6 + 60,
}


def signed(changes: dict[str, Any] | None = None, **headers: Any) -> str:
    """With our key, whatever it says; None takes a claim out."""
    claims = {name: value for name, value in {**CLAIMS, **(changes or {})}.items() if value is not None}
    return jwt.encode(claims, KEY, algorithm="EdDSA", headers=headers)


def by_hand(header: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(CLAIMS).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def test_a_token_says_what_was_signed() -> None:
    """To the microsecond, for anybody with the public key."""
    assert CHECKER.check(SIGNER.sign(ANN), NOW_US) == ANN
    assert CHECKER.check(signed(), NOW_US).user == "ann", "what the attacks below begin with is right"


def test_a_key_is_made_once_and_readable_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "new" / "key.pem"
    made = TokenSigner.load(file)
    assert TokenSigner.load(file).public_key() == made.public_key()
    assert file.stat().st_mode & 0o777 == 0o600
    other = rsa.generate_private_key(65537, 2048)
    file.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(ClusterFailure, match="another kind of key"):
        TokenSigner.load(file)


def test_expiry_is_exact() -> None:
    """A token is good until the microsecond before it expires."""
    token = SIGNER.sign(ANN)
    assert CHECKER.check(token, ANN.expires_at_us - 1) == ANN
    with pytest.raises(Unauthorised, match="expired"):
        CHECKER.check(token, ANN.expires_at_us)


def test_revoking_makes_earlier_tokens_void_for_good() -> None:
    """Those of that user; an older revocation does not take back a newer one."""
    checker = TokenChecker(SIGNER.public_key())
    token, later = SIGNER.sign(ANN), SIGNER.sign(dataclasses.replace(ANN, issued_at_us=NOW_US + 1))
    checker.revoke("bob", NOW_US + 1)
    assert checker.check(token, NOW_US) == ANN
    checker.revoke("ann", NOW_US + 1)
    checker.revoke("ann", NOW_US)
    with pytest.raises(Unauthorised, match="revoked"):
        checker.check(token, NOW_US)
    assert checker.check(later, NOW_US).user == "ann"


_PUBLIC = SIGNER.public_key().encode()
_TOKEN = SIGNER.sign(ANN)
_ELSEWHERE = Ed25519PrivateKey.generate()
_HEADER, _BODY, _SIGNATURE = _TOKEN.split(".")
_OTHER_BODY = signed({"sub": "root"}).split(".")[1]


def _hmac_with_the_public_key() -> str:
    """The classic: the public key taken for a shared secret."""
    unsigned = by_hand({"alg": "HS256", "typ": "JWT"}).rstrip(".")
    signature = hmac.digest(_PUBLIC, unsigned.encode(), "sha256")
    return f"{unsigned}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


ATTACKS = {
    "empty": "",
    "no token at all": "ann",
    "too long": "a" * 5000,
    "not even letters": "\x00\ud800.é.~",
    "too many parts": f"{_TOKEN}.{_SIGNATURE}",
    "no signature": f"{_HEADER}.{_BODY}.",
    "somebody else's claims": f"{_HEADER}.{_OTHER_BODY}.{_SIGNATURE}",
    "signature cut short": _TOKEN[:-8],
    "another key": jwt.encode(CLAIMS, _ELSEWHERE, algorithm="EdDSA"),
    "its own key in the header": jwt.encode(
        CLAIMS,
        _ELSEWHERE,
        algorithm="EdDSA",
        headers={"jwk": json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(_ELSEWHERE.public_key()))},
    ),
    "alg none": by_hand({"alg": "none", "typ": "JWT"}),
    "alg None": by_hand({"alg": "None", "typ": "JWT"}),
    "alg none with a signature": by_hand({"alg": "none"}, b"x" * 64),
    "alg of another kind": by_hand({"alg": 7}),
    "HS256 with the public key": _hmac_with_the_public_key(),
    "RS256": jwt.encode(CLAIMS, rsa.generate_private_key(65537, 2048), algorithm="RS256"),
    "ES256": jwt.encode(CLAIMS, ec.generate_private_key(ec.SECP256R1()), algorithm="ES256"),
    "another audience": signed({"aud": "elsewhere"}),
    "no audience": signed({"aud": None}),
    "another issuer": signed({"iss": "somebody"}),
    "no issuer": signed({"iss": None}),
    "no subject": signed({"sub": None}),
    "no expiry": signed({"exp": None}),
    "expiry that is no number": signed({"exp": "never"}),
    "expiry without end": signed({"exp": float("inf")}),
    "issue time that is no number": signed({"iat": [1]}),
    "not valid yet": signed({"nbf": 1e11}),
    "critical extension": signed(crit=["x"], x=1),
}


@pytest.mark.parametrize("attack", sorted(ATTACKS))
def test_attacks_are_refused(attack: str) -> None:
    """With one error of ours, which does not repeat what it was given."""
    token = ATTACKS[attack]
    with pytest.raises(Unauthorised) as caught:
        CHECKER.check(token, NOW_US)
    assert not token or len(token) < 5 or token not in str(caught.value)


def test_keys_of_other_kinds_are_refused() -> None:
    """Only a public key of the kind that signs our tokens is taken."""
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    for text in (pem, "", "no key"):
        with pytest.raises(InvalidValue):
            TokenChecker(text)
