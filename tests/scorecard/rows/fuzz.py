"""Row 15: nonsense, floods, bombs and half-open requests end nothing, and cost little."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
import time
from collections import Counter
from urllib.parse import quote

import httpx

from scorecard.row import Effort, Outcome, Row
from scorecard.secured import CHANNEL, Secured, await_message, secured
from tocsin.runtime.processes import ServerProcess

#: One connection sends so many frames before it looks whether it was closed: as many as a client may send at once.
_BURST = 1_000
_MAX_GROWTH_MB = 100
#: Half-open requests must have been let go of after this.
_HALF_OPEN_S = 45.0
_OPCODES = (0x0, 0x1, 0x2, 0x3, 0x7, 0x8, 0x9, 0xA, 0xB, 0xF)
_UPGRADE = (
    b"GET /v1/connect HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def _fuzz(effort: Effort) -> Outcome:
    with secured({"max_connections_per_user": 200}) as system:
        attack = _Attack(system, effort)
        # What a first request loads stays loaded.
        attack.send_calls(200)
        attack.send_frames(5_000)
        before_bytes = system.memory_bytes()
        half_open = attack.open_halves(effort["half-open"])
        frames = attack.send_frames(effort["frames"])
        calls = attack.send_calls(effort["calls"])
        attack.send_bombs()
        still_open = attack.count_open(half_open)
        grown_mb = {name: (now - before_bytes[name]) >> 20 for name, now in system.memory_bytes().items()}
        bad = [*attack.bad, *system.check_alive()]
        if sum(grown_mb.values()) - grown_mb["java"] > _MAX_GROWTH_MB:
            bad.append(f"memory grew by more than {_MAX_GROWTH_MB} MB: {grown_mb}")
        if still_open:
            bad.append(f"{still_open} of {len(half_open)} half-open requests are still held after {_HALF_OPEN_S:g} s")
        bad += attack.check_service()
    figures = {"answers": dict(attack.answers), "memory grew by MB": grown_mb}
    return Outcome({"frames": frames, "calls": calls, "half-open": len(half_open)}, tuple(bad), figures)


class _Attack:
    def __init__(self, system: Secured, effort: Effort) -> None:
        self._system = system
        self._effort = effort
        self._chance = random.Random(effort.seed)
        self._token = system.register("mallory")
        self.answers: Counter[str] = Counter()
        self.bad: list[str] = []
        self._halves_opened_s = 0.0

    # WebSocket frames

    def send_frames(self, count: int) -> int:
        """Frames of all kinds, before and after a proper hello."""
        sent = 0
        while sent < count:
            try:
                with self._upgraded() as raw:
                    if self._chance.random() < 0.5:
                        raw.sendall(_frame(0x1, json.dumps({"type": "hello", "token": self._token}).encode()))
                    burst = [self._some_frame() for _ in range(min(_BURST, count - sent))]
                    sent += len(burst)
                    raw.sendall(b"".join(burst))
                    self._read_to_end(raw)
            except OSError as exc:
                self.answers[f"frames: {type(exc).__name__}"] += 1
            if ended := self._system.check_alive():
                self.bad += ended
                return sent
            if sent % 100_000 == 0:
                self._effort.say(f"{sent:,} frames")
        return sent

    def _upgraded(self) -> socket.socket:
        raw = socket.create_connection((self._system.broker.host, self._system.broker.port), timeout=5)
        raw.sendall(_UPGRADE % f"{self._system.broker.host}:{self._system.broker.port}".encode())
        raw.recv(4096)
        return raw

    def _read_to_end(self, raw: socket.socket) -> None:
        raw.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            while data := raw.recv(1 << 16):
                if b"CANARY" in data:
                    self.bad.append("a canary was sent")

    def _some_frame(self) -> bytes:
        chance = self._chance
        choice = chance.random()
        if choice < 0.5:
            return _frame(0x1, self._some_message())
        if choice < 0.6:
            return _frame(0x9, chance.randbytes(chance.randint(0, 125)))
        if choice < 0.9:
            return _frame(chance.choice(_OPCODES), chance.randbytes(chance.choice((0, 1, 5, 125, 126, 300))))
        if choice < 0.95:
            return _frame(chance.choice(_OPCODES), b"x" * 10, length=chance.choice((2**16, 2**32, 2**63 - 1, 2**63)))
        return chance.randbytes(chance.randint(1, 60))

    def _some_message(self) -> bytes:
        chance = self._chance
        odd = (None, True, -1, 0, 2**53, 2**63, 2**64, 1e308, "", "x", "7-9223372036854775808", "1-1", "-1--1", [], {})
        message = {
            "type": chance.choice(("hello", "subscribe", "unsubscribe", "ack", "location", "ping", "move", "", None)),
            "channel": chance.choice((CHANNEL, "Nothing", "x" * 1000, *odd)),
            "parameters": chance.choice(({"topic": "a"}, {"topic": chance.choice(odd)}, {"x": {}}, chance.choice(odd))),
            "position": chance.choice(odd),
            "positions": chance.choice(([], ["1-1"], [chance.choice(odd)], ["9" * 500 + "-1"] * 50)),
            "subscription": chance.choice(odd),
            "request": chance.choice(odd),
            "x": chance.choice(odd),
            "y": chance.choice(odd),
            "token": self._token,
        }
        kept = {name: value for name, value in message.items() if name == "type" or chance.random() < 0.6}
        text = json.dumps(kept).encode()
        if chance.random() < 0.2:
            at = chance.randrange(len(text))
            text = text[:at] + chance.randbytes(chance.randint(0, 3)) + text[at + 1 :]
        return text

    # HTTP calls

    def send_calls(self, count: int) -> int:
        """Calls of every route of every server, with odd paths, bodies and headers: no answer may be a 5xx."""
        calls = 0
        routes = {server.url: _routes(server, self._key(server)) for server in self._system.servers()}
        with httpx.Client(timeout=30) as http:
            while calls < count:
                server = self._chance.choice(self._system.servers())
                method, path = self._chance.choice(routes[server.url])
                path = path.replace("{", "").replace("}", "") if self._chance.random() < 0.2 else self._filled(path)
                headers = {"Authorization": f"Bearer {self._key(server)}"} if self._chance.random() < 0.8 else {}
                headers["Content-Type"] = self._chance.choice(
                    ("application/json", "text/plain", "application/x-ndjson")
                )
                calls += 1
                try:
                    # A stream would not end; its beginning is enough.
                    with http.stream(
                        method, server.url + path, content=self._some_body(), headers=headers, params=self._some_query()
                    ) as answer:
                        self.answers[str(answer.status_code)] += 1
                        # 503 with `temporary` is an honest answer; everything else from 500 is a fault of ours.
                        if answer.status_code >= 500 and answer.status_code != 503:
                            answer.read()
                            self.bad.append(f"{answer.status_code} for {method} {path}: {answer.text[:200]}")
                except httpx.TransportError as exc:
                    self.answers[f"calls: {type(exc).__name__}"] += 1
                    if ended := self._system.check_alive():
                        self.bad += ended
                        return calls
                if calls % 5_000 == 0:
                    self._effort.say(f"{calls:,} calls")
        return calls

    def _key(self, server: ServerProcess) -> str:
        if server is self._system.cluster:
            return self._system.cluster_token
        return self._system.operator_token if server is self._system.coordinator else self._token

    def _filled(self, path: str) -> str:
        odd = ("x", "reports", "Reports", "broker-9", "mallory2", "1", "-1", "..", "%", "\u202e", "a" * 300, "a b", "0")
        while "{" in path:
            before, _, rest = path.partition("{")
            path = before + quote(self._chance.choice(odd), safe="") + rest.partition("}")[2]
        return path

    def _some_query(self) -> dict[str, str]:
        names = ("after", "limit", "wait_s", "subscribe", "format", "x")
        values = ("0", "1", "-1", "9" * 30, "nan", "1e400", "", "x", "OnTopic(topic => 'a')", "((((")
        return {name: self._chance.choice(values) for name in self._chance.sample(names, self._chance.randint(0, 2))}

    def _some_body(self) -> bytes:
        chance = self._chance
        bodies = (
            b"",
            b"null",
            b"[" * 5_000,
            b'{"sql": "SELECT 1"}',
            b'{"sql": "' + b"(" * 2_000 + b'"}',
            b'{"name": "a", "password": "b"}',
            b'{"device": "phone"}',
            b'{"ids": [1e400, 99999999999999999999999]}',
            b'{"after": {"1": "9-99999999999999999999"}}',
            b'{"subscriptions": [{"channel": "OnTopic", "parameters": {"topic": 1e400}}]}',
            b"\xff\xfe\x00",
            b'{"a": "\\ud800"}',
            chance.randbytes(chance.randint(1, 200)),
        )
        return chance.choice(bodies)

    # Bombs and half-open requests

    def send_bombs(self) -> None:
        """Bodies of 40 MB to routes that anybody may call."""
        for path in ("/v1/tokens", "/v1/users", "/v1/placements"):
            with contextlib.suppress(httpx.TransportError):
                answer = httpx.post(
                    self._system.coordinator.url + path,
                    content=b"[" + b"[]," * 13_000_000 + b"[]]",
                    headers={"Content-Type": "application/json"},
                    timeout=60,
                )
                self.answers[f"bomb {answer.status_code}"] += 1
                if answer.status_code >= 500:
                    self.bad.append(f"{answer.status_code} for 40 MB at {path}")

    def open_halves(self, count: int) -> list[socket.socket]:
        """Requests of which half a header is all that ever comes."""
        opened = []
        for number in range(count):
            server = self._system.servers()[number % 3]
            with contextlib.suppress(OSError):
                raw = socket.create_connection((server.host, server.port), timeout=5)
                raw.sendall(b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Le")
                opened.append(raw)
        self._halves_opened_s = time.monotonic()
        return opened

    def count_open(self, halves: list[socket.socket]) -> int:
        """How many of them the server still holds, some time after they were opened."""
        time.sleep(max(0.0, self._halves_opened_s + _HALF_OPEN_S - time.monotonic()))
        held = 0
        for raw in halves:
            raw.setblocking(False)
            try:
                while raw.recv(4096):
                    pass
            except BlockingIOError:
                held += 1
            except OSError:
                pass
            raw.close()
        return held

    def check_service(self) -> list[str]:
        """After all that a proper subscriber is served as ever."""
        try:
            with self._system.subscribed(self._system.register("honest"), "after") as raw:
                self._system.publish({"id": "after", "topic": "after", "message": "still here"})
                await_message(raw, "notification", 30)
        except (TimeoutError, RuntimeError) as exc:
            return [f"a proper subscriber is not served afterwards: {exc}"]
        return []


def _frame(opcode: int, body: bytes, length: int | None = None) -> bytes:
    """A final, masked frame that claims to have `length` bytes."""
    size = len(body) if length is None else length
    head = bytes([0x80 | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | 126]) + struct.pack("!H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack("!Q", size)
    return head + b"\0\0\0\0" + body


def _routes(server: ServerProcess, key: str) -> list[tuple[str, str]]:
    """All that the server says it has. Those that change who may come in, or end the attack, are left out."""
    answer = httpx.get(f"{server.url}/openapi.json", headers={"Authorization": f"Bearer {key}"}, timeout=30)
    paths = answer.json()["paths"]
    found = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    return [one for one in found if one != ("DELETE", "/v1/users/{name}")]


FUZZ = Row(
    15,
    "Frames and calls of nonsense, floods, bombs, half-open requests",
    "0 ended, 0 answers from 500 on, memory at most 100 MB more beside Java's",
    full={"frames": 1_000_000, "calls": 20_000, "half-open": 200},
    brief={"frames": 20_000, "calls": 1_000, "half-open": 30},
    run=_fuzz,
)
