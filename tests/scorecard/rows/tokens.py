"""Row 13: tokens, cursors and session names that are not the attacker's own open nothing."""

from __future__ import annotations

import base64
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.exceptions import ConnectionClosed, InvalidStatus

from scorecard.row import Effort, Outcome, Row
from scorecard.secured import CHANNEL, OWN_CHANNEL, PASSWORD, STAFF_CHANNEL, Secured, await_message, secured
from tocsin.runtime.tokens import Identity, TokenSigner

_CANARY = "CANARY-4711"
_SECRET_TOPIC = "secret"
_REVOKED_WITHIN_S = 5.0
_HOUR_US = 3_600_000_000
#: After so many tries with tokens that are worth nothing, a registered user tries what is not hers.
_REGISTERED_EVERY = 50
#: How many of the tries as a publisher are those of one who was dropped.
_DROPPED_PART = 0.3
#: What an operator may do, and what only broker-1 may.
_OPERATORS_AT_COORDINATOR = (
    ("GET", "/v1/users"),
    ("POST", "/v1/users/alice/tokens"),
    ("POST", "/v1/users/alice/revoke"),
    ("DELETE", "/v1/users/alice"),
    ("POST", "/v1/keys/rotate"),
    ("GET", "/v1/subscribers/alice/phone"),
    ("PUT", "/v1/placement-policy"),
    ("PUT", "/v1/brokers/broker-1/state"),
    ("DELETE", "/v1/brokers/broker-1"),
    ("GET", "/v1/audit"),
    ("POST", "/v1/brokers/broker-1/claims"),
    ("POST", "/v1/brokers/broker-1/sessions"),
)
_OPERATORS_AT_CLUSTER = (
    ("POST", "/v1/statements"),
    ("GET", "/v1/datasets/Reports/recent"),
    ("POST", "/v1/feeds/reports/records"),
    ("DELETE", "/v1/brokers/broker-1"),
    ("GET", "/v1/brokers/broker-1/subscriptions"),
    ("POST", "/v1/brokers/broker-1/unsubscribe"),
    ("GET", "/v1/brokers/broker-1/results"),
)
_REFUSALS = frozenset({400, 401, 403, 404, 405, 413, 422, 429, 431})


@dataclass(frozen=True, slots=True)
class _Keys:
    """What an attacker may have got hold of, and what a test has to make tokens that are nearly right."""

    real: TokenSigner
    foreign: TokenSigner
    valid: str
    revoked: str
    #: Good once, of people who have tokens again: from before they were revoked and logged in anew, before a user was
    #: removed and another one took the name, and before a person was forgotten.
    replayed: tuple[str, ...]

    def token(self, kind: str, chance: random.Random, now_us: int) -> str:
        """A token of this kind; none of them may be accepted."""
        fresh = Identity("alice", "gold", now_us, now_us + _HOUR_US)
        match kind:
            case "forged":
                return self.foreign.sign(fresh)
            case "unsigned":
                return jwt.encode({**_claims(self.valid), "sub": "alice"}, "", algorithm="none")
            case "signed with the public key":
                head = _part({"alg": "HS256", "typ": "JWT"})
                return f"{head}.{_part(_claims(self.valid))}.{_part(self.real.public_key())}"
            case "altered":
                # Not the very last place: some of its bits mean nothing, so two letters there can stand for the same.
                at = chance.randrange(len(self.valid) - 1)
                other = chance.choice([one for one in "AQgw09-_" if one != self.valid[at]])
                return self.valid[:at] + other + self.valid[at + 1 :]
            case "another's claims":
                head, _, signature = self.valid.split(".")
                return f"{head}.{_part({**_claims(self.valid), 'sub': 'alice', 'perm': 'gold'})}.{signature}"
            case "expired":
                age_us = chance.randrange(1, 10**12)
                return self.real.sign(Identity("alice", "gold", now_us - age_us - _HOUR_US, now_us - age_us))
            case "for another purpose":
                claims = _claims(self.valid) | chance.choice(({"aud": "other"}, {"iss": "somebody"}))
                return jwt.encode(claims, self.real._key, algorithm="EdDSA")
            case "revoked":
                return self.revoked
            case "replayed":
                return chance.choice(self.replayed)
            case _:
                return chance.choice(("", " ", "null", "x" * 5000, "a.b.c", "..", "\u202e", self.valid[:-20], "é" * 40))


_KINDS = (
    "forged",
    "unsigned",
    "signed with the public key",
    "altered",
    "another's claims",
    "expired",
    "for another purpose",
    "revoked",
    "replayed",
    "nonsense",
)


def _tokens(effort: Effort) -> Outcome:
    with secured() as system:
        return _Attack(system, effort).run()


class _Attack:
    """`alice` holds the secret topic; `mallory` is a registered user who wants to see it; strangers have no account."""

    def __init__(self, system: Secured, effort: Effort) -> None:
        self._system = system
        self._effort = effort
        self._chance = random.Random(effort.seed)
        self._tries: Counter[str] = Counter()
        self._answers: Counter[int | str] = Counter()
        self._bad: list[str] = []
        self._http = httpx.Client(timeout=30)
        self._alice = system.register("alice")
        self._mallory = system.register("mallory")

    def run(self) -> Outcome:
        keys = self._keys()
        position = self._tell_secret()
        attacks = self._attacks()
        while (done := self._tries.total()) < self._effort["tries"]:
            kind = self._chance.choice(_KINDS)
            attack = self._chance.choices([one for one, _ in attacks], [weight for _, weight in attacks])[0]
            try:
                attack(keys.token(kind, self._chance, time.time_ns() // 1000))
            except httpx.TransportError as exc:
                self._answers[type(exc).__name__] += 1
            self._tries[kind] += 1
            if done % _REGISTERED_EVERY == 0:
                self._try_as_mallory(position)
                self._carry_on_anothers(position)
                self._ask_for_what_is_not_hers()
            if done % 200 == 0:
                self._system.publish({"id": f"s{done}", "topic": _SECRET_TOPIC, "message": _CANARY})
            if done % 10_000 == 0:
                self._effort.say(f"{done:,} tries, {len(self._bad)} bad")
        bad = [*self._bad, *self._system.check_alive()]
        figures = {"tries by kind": dict(self._tries), "answers": {str(one): n for one, n in self._answers.items()}}
        return Outcome(
            {"tries": self._tries.total()},
            tuple(bad),
            figures | {"revoked after s": round(self._revoked_after_s, 2)},
        )

    # What attackers know

    def _keys(self) -> _Keys:
        """Also: how long a revoked token goes on being taken."""
        real = TokenSigner.load(next(self._system.folder.glob("coordinator/**/*.pem")))
        revoked = self._system.register("carol")
        assert self._listen(revoked) == 200, "a valid token is refused"
        begin_s = time.monotonic()
        self._system.as_operator("POST", "/v1/users/carol/revoke").raise_for_status()
        while self._listen(revoked) == 200 and time.monotonic() < begin_s + 4 * _REVOKED_WITHIN_S:
            time.sleep(0.05)
        self._revoked_after_s = time.monotonic() - begin_s
        if self._revoked_after_s > _REVOKED_WITHIN_S:
            self._bad.append(f"a revoked token was taken for {self._revoked_after_s:.1f} s more")
        foreign = TokenSigner(Ed25519PrivateKey.generate())
        return _Keys(real, foreign, self._mallory, revoked, tuple(self._replayed()))

    def _replayed(self) -> Iterator[str]:
        """Tokens from before of people who have a good one now, once the broker knows."""
        changes = (
            ("POST", "/v1/users/{}/revoke", None),
            ("DELETE", "/v1/users/{}", None),
            ("POST", "/v1/forget", "name"),
        )
        for number, (method, path, key) in enumerate(changes):
            name = f"dave-{number}"
            before = self._system.register(name)
            self._system.as_operator(method, path.format(name), json={key: name} if key else {}).raise_for_status()
            again = {"name": name, "password": PASSWORD}
            answer = self._http.post(f"{self._system.coordinator.url}/v1/tokens", json=again)
            now = answer.json()["token"] if answer.is_success else self._system.register(name)
            deadline_s = time.monotonic() + _REVOKED_WITHIN_S
            while self._listen(before) == 200 and time.monotonic() < deadline_s:
                time.sleep(0.05)
            if self._listen(now) != 200:
                self._bad.append(f"{name} is not let in with a new token")
            yield before

    def _tell_secret(self) -> str:
        """Somebody with the right to it gets the secret; returns its position."""
        with self._system.subscribed(self._alice, _SECRET_TOPIC) as socket:
            self._system.publish({"id": "s", "topic": _SECRET_TOPIC, "message": _CANARY})
            message = await_message(socket, "notification")
            assert message["payload"]["message"] == _CANARY
            return str(message["position"])

    # Attacks with a token that is worth nothing

    def _attacks(self) -> list[tuple[Callable[[str], None], int]]:
        return [
            (self._as_event_stream, 60),
            (self._as_websocket, 10),
            (self._at_coordinator, 15),
            (self._at_cluster, 15),
            (self._as_broker, 5),
            (self._as_publisher, 5),
        ]

    def _as_event_stream(self, token: str) -> None:
        self._judge("event stream", token, self._listen(token))

    def _listen(self, token: str) -> int:
        params = {"subscribe": f"{CHANNEL}(topic => '{_SECRET_TOPIC}')"}
        with self._http.stream(
            "GET", f"{self._system.broker.url}/v1/events", params=params, headers=_bearer(token)
        ) as answer:
            if answer.status_code != 200:
                answer.read()
            return answer.status_code

    def _as_websocket(self, token: str) -> None:
        try:
            with self._system.socket() as socket:
                socket.send(json.dumps({"type": "hello", "token": token, "device": "phone"}))
                request_body = {
                    "type": "subscribe",
                    "channel": CHANNEL,
                    "parameters": {"topic": _SECRET_TOPIC},
                    "request": 1,
                }
                socket.send(json.dumps(request_body))
                while True:
                    message = json.loads(socket.recv(30))
                    if message["type"] != "error":
                        self._bad.append(f"WebSocket: {message['type']} for the token {token[:60]!r}")
                        return
        except ConnectionClosed as exc:
            self._answers[f"close {exc.rcvd.code if exc.rcvd else 'without code'}"] += 1
        except (InvalidStatus, OSError) as exc:
            self._answers[type(exc).__name__] += 1

    def _at_coordinator(self, token: str) -> None:
        base = self._system.coordinator.url
        method, path = self._chance.choice(
            (
                ("POST", "/v1/placements"),
                ("GET", "/v1/subscribers"),
                ("GET", "/v1/subscribers/alice/phone"),
                ("GET", "/v1/users"),
                ("POST", "/v1/users/alice/tokens"),
                ("POST", "/v1/users/alice/revoke"),
                ("DELETE", "/v1/users/alice"),
                ("PUT", "/v1/brokers/broker-1"),
                ("POST", "/v1/brokers/broker-1/claims"),
                ("GET", "/v1/audit"),
            )
        )
        answer = self._http.request(method, base + path, headers=_bearer(token), json={"device": "phone"})
        self._judge(f"coordinator {method} {path}", token, answer.status_code, answer.text)

    def _at_cluster(self, token: str) -> None:
        base = self._system.cluster.url
        method, path = self._chance.choice(
            (
                ("POST", "/v1/statements"),
                ("GET", "/v1/brokers/broker-1/results"),
                ("GET", "/v1/brokers/broker-1/subscriptions"),
                ("POST", "/v1/results"),
                ("GET", "/v1/datasets/Reports/recent"),
                ("DELETE", "/v1/brokers/broker-1"),
                ("POST", "/v1/feeds/reports/records"),
                ("GET", "/metrics"),
            )
        )
        # What opens the cluster, and something near it, is a better guess than a user's token.
        guess = self._chance.choice((token, self._system.cluster_token[:-1], self._system.cluster_token + "x"))
        answer = self._http.request(method, base + path, headers=_bearer(guess), json={"sql": "SHOW DATASETS"})
        self._judge(f"cluster {method} {path}", guess, answer.status_code, answer.text)

    # Attacks with a broker's credentials

    def _as_broker(self, _token: str) -> None:
        """What operators do is not for brokers, and a broker's name is for that broker."""
        base, method, path = self._chance.choice(
            (
                *((self._system.coordinator.url, method, path) for method, path in _OPERATORS_AT_COORDINATOR),
                *((self._system.cluster.url, method, path) for method, path in _OPERATORS_AT_CLUSTER),
            )
        )
        headers = {**_bearer(self._system.broker_token), b"Tocsin-Identity": b"another", b"Tocsin-Incarnation": b"1"}
        body = {"sql": "SHOW DATASETS", "state": "draining", "subscribers": ["alice/phone"], "ids": [1]}
        answer = self._http.request(method, base + path, headers=headers, json={**body, "subscriptions": []})
        self._judge(f"{method} {path}", "the brokers'", answer.status_code, answer.text)
        self._tries["as a broker"] += 1

    def _as_publisher(self, _token: str) -> None:
        """A publisher's token publishes to its own feed; that of one who was dropped, to none."""
        method, path = self._chance.choice(_OPERATORS_AT_CLUSTER)
        token = self._system.publisher_token
        if self._chance.random() < _DROPPED_PART:
            method, path, token = "POST", "/v1/feeds/others/records", self._system.dropped_publisher_token
        headers, body = _bearer(token), {"sql": "SHOW GRANTS", "id": "p", "ids": [1]}
        answer = self._http.request(method, self._system.cluster.url + path, headers=headers, json=body)
        self._judge(f"{method} {path}", "a publisher's", answer.status_code, answer.text)
        self._tries["as a publisher"] += 1

    # Attacks of a registered user

    def _try_as_mallory(self, position: str) -> None:
        """Foreign positions, devices and subscription ids, with a token of her own: she sees what is hers."""
        epoch, _, sequence = position.partition("-")
        devices = ("phone", "alice", "~alice", "alice@phone")
        foreign = (position, f"{epoch}-0", f"{int(epoch) + 1}-{sequence}", "0-0")
        try:
            with self._system.socket() as socket:
                hello = {"type": "hello", "token": self._mallory, "device": self._chance.choice(devices)}
                socket.send(json.dumps(hello))
                welcome = json.loads(socket.recv(30))
                if not welcome.get("subscriber", "mallory/").startswith("mallory/") or _SECRET_TOPIC in str(welcome):
                    self._bad.append(f"mallory was welcomed with {welcome}")
                request_body = {
                    "channel": CHANNEL,
                    "parameters": {"topic": "mine"},
                    "position": self._chance.choice(foreign),
                }
                socket.send(json.dumps({"type": "subscribe", "request": 1, **request_body}))
                socket.send(json.dumps({"type": "unsubscribe", "subscription": int(epoch), "request": 2}))
                socket.send(json.dumps({"type": "ack", "positions": [position]}))
                socket.send(json.dumps({"type": "ping", "request": 3}))
                while (message := json.loads(socket.recv(30)))["type"] != "pong":
                    text = json.dumps(message)
                    if _CANARY in text or "alice/" in text:
                        self._bad.append(f"mallory was told {text[:300]}")
        except (ConnectionClosed, InvalidStatus) as exc:
            self._answers[type(exc).__name__] += 1
        self._tries["as somebody else"] += 1

    def _carry_on_anothers(self, position: str) -> None:
        """An event stream of her own that carries on where another's ended, and sessions by other people's names."""
        sequence = position.partition("-")[2]
        cursor = self._chance.choice((position, f"{position},{position}", f"1-{sequence}", "alice/phone", "0-0"))
        device = self._chance.choice(("phone", "alice/phone", "~phone", "../alice/phone"))
        params = {"subscribe": f"{CHANNEL}(topic => 'mine')", "device": device}
        headers = {**_bearer(self._mallory), b"Last-Event-ID": cursor.encode()}
        try:
            told = self._first_answer(params, headers)
        except httpx.TransportError as exc:
            self._answers[type(exc).__name__] += 1
            told = ""
        for own in (cursor, device):
            told = told.replace(own, "")
        if _CANARY in told or _SECRET_TOPIC in told or "alice/" in told:
            self._bad.append(f"mallory carried {cursor} on as {device} and was told {told[:300]}")
        self._tries["another's cursor or session name"] += 1

    def _first_answer(self, params: dict[str, str], headers: dict[bytes, bytes]) -> str:
        """What an event stream begins with, or why there is none."""
        with self._http.stream("GET", f"{self._system.broker.url}/v1/events", params=params, headers=headers) as answer:
            self._answers[answer.status_code] += 1
            return next(answer.iter_text(), "") if answer.status_code == 200 else answer.read().decode()

    def _ask_for_what_is_not_hers(self) -> None:
        """Parameters that are filled in, with other people's values, and a channel that is not granted to her class."""
        name = self._chance.choice(("alice", "Mallory", "mallory/phone", "", "mallory "))
        given = {self._chance.choice(("owner", "OWNER")): name}
        requests = {
            1: {"channel": self._chance.choice((OWN_CHANNEL, OWN_CHANNEL.lower())), "parameters": given},
            2: {"channel": OWN_CHANNEL, "parameters": {"class": "staff"}},
            3: {"channel": STAFF_CHANNEL, "parameters": {"topic": _SECRET_TOPIC}},
        }
        with self._system.socket() as socket:
            socket.send(json.dumps({"type": "hello", "token": self._mallory, "device": "watch"}))
            await_message(socket, "welcome")
            for request, request_body in requests.items():
                socket.send(json.dumps({"type": "subscribe", "request": request, **request_body}))
            while requests:
                message = json.loads(socket.recv(30))
                request_body = requests.pop(message.get("request", 0), {})
                code = message.get("code", message["type"])
                self._answers[code] += 1
                if code not in ("forbidden", "not_granted"):
                    self._bad.append(f"mallory asked for {request_body} and was told {str(message)[:300]}")
                self._tries["what is not granted, or another's"] += 1

    def _judge(self, where: str, token: str, status: int, text: str = "") -> None:
        self._answers[status] += 1
        if status not in _REFUSALS or _CANARY in text:
            self._bad.append(f"{where}: {status} for the token {token[:60]!r}: {text[:200]}")


def _bearer(token: str) -> dict[bytes, bytes]:
    # Header values are bytes on the wire; line breaks can't be sent at all.
    return {b"Authorization": b"Bearer " + token.encode()}


def _claims(token: str) -> dict[str, object]:
    claims: dict[str, object] = jwt.decode(token, options={"verify_signature": False})
    return claims


def _part(content: object) -> str:
    raw = content.encode() if isinstance(content, str) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


TOKENS = Row(
    13,
    "Forged, expired, foreign, revoked, replayed tokens; others' cursors, sessions, parameters, grants, feeds",
    "0 leaked, revoked within 5 s",
    full={"tries": 100_000},
    brief={"tries": 3_000},
    run=_tokens,
)
