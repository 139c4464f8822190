"""The coordinator as brokers, subscribers and operators meet it: a real process on a loopback port."""

from __future__ import annotations

import json
import re
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
import uvicorn
from typer.testing import CliRunner, Result

from integration.documents import check_document
from tocsin.cli.main import app
from tocsin.client import ServerError
from tocsin.coordinator.accounts import passwords
from tocsin.coordinator.server import make_app, serve
from tocsin.errors import InvalidValue
from tocsin.runtime.ports import free_port
from tocsin.runtime.processes import start_server, stop
from tocsin.settings import CoordinatorSettings
from unit.runtime.certificates import write_certificate
from unit.runtime.test_tokens import ATTACKS
from worlds.acting_broker import ActingBroker

_PATIENCE_S = 60.0
_OPERATOR = "operator-sécret"
_PASSWORD = "correct horse battery"
_ANY_CERTIFICATE = ssl._create_unverified_context()
_DOCS = Path(__file__).parents[2] / "docs" / "reference" / "coordinator-api.md"


@dataclass
class Coordinator:
    url: str
    process: subprocess.Popen[bytes]
    log: Path
    client: ActingBroker

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def running(folder: Path, **changes: Any) -> Iterator[Coordinator]:
    """`tocsin coordinator` on `folder`, once it answers."""
    port = free_port()
    log = folder / "coordinator.log"
    process = start_server("coordinator", folder / "data", port, log, {"log_level": "debug", **changes})
    url = f"{'https' if 'tls_key' in changes else 'http'}://127.0.0.1:{port}"
    try:
        _wait_healthy(url, process, log)
        with ActingBroker(url, token=str(changes.get("api_token", ""))) as client:
            yield Coordinator(url, process, log, client)
    finally:
        stop(process)


def _wait_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        assert process.poll() is None, log.read_text()
        try:
            if httpx.get(f"{url}/healthz", verify=_ANY_CERTIFICATE).is_success:
                return
        except httpx.TransportError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)


@contextmanager
def serving(folder: Path, **changes: Any) -> Iterator[str]:
    """A coordinator in this process, whose passwords are hashed quickly."""
    application = make_app(CoordinatorSettings(data_dir=folder, **changes))
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_config=None, timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run, name="server")
    patch = pytest.MonkeyPatch()
    patch.setattr(passwords, "_N", 16)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        patch.undo()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    """One with an API token, which most tests share; each uses names of its own. Its log tells no secret."""
    folder = tmp_path_factory.mktemp("guarded")
    # Nobody sends heartbeats here, and nobody should die of it.
    with running(folder, api_token=_OPERATOR, dead_after_s=3600) as coordinator:
        yield coordinator
        logged = coordinator.log.read_text()
    assert "ready" in logged
    for secret in (_OPERATOR, _PASSWORD, "eyJ", "scrypt$"):
        assert secret not in logged


def _held(channel: str, **parameters: Any) -> dict[str, Any]:
    return {"channel": channel, "parameters": parameters, "permission": "medic", "position": "3-14", "where": ""}


def test_a_kill_and_a_restart_lose_nothing(tmp_path: Path) -> None:
    """Users and their tokens, brokers and their states, sessions and their owners, and the policy are all there."""
    session = {
        "subscriber": "ann/phone",
        "generation": 1,
        "connected": True,
        "subscriptions": [_held("Near", radius_m=1.0, on=True, user="ann")],
    }
    with running(tmp_path) as before:
        token = before.client.register("ann", _PASSWORD, "medic")["token"]
        revoked = before.client.register("bob", _PASSWORD)["token"]
        before.client.revoke("bob")
        key = before.client.register_broker("a", "http://127.0.0.1:1", location=[1, 2], capacity=2)["public_keys"]
        before.client.register_broker("b", "http://127.0.0.1:2")
        assert before.client.claim("a", ["ann/phone"]) == {"ann/phone": 1}
        before.client.heartbeat("a", {"changed": [session], "connections": 1})
        before.client.claim("b", ["ann/laptop"])
        before.client.claim("a", ["ann/laptop"])
        before.client.set_state("b", "cordoned")
        before.client.choose_policy("round-robin")
        before.kill()
    with running(tmp_path) as after:
        assert [user["name"] for user in after.client.users()] == ["ann", "bob"]
        assert after.client.session("ann", "phone") == session
        assert after.client.policy()["policy"] == "round-robin"
        first, second = after.client.brokers()
        assert (first["name"], first["url"], first["location"], first["capacity"]) == (
            "a",
            "http://127.0.0.1:1",
            [1, 2],
            2,
        )
        assert (first["subscribers"], first["loads"]) == (2, {"incoming": 1, "outgoing": 1, "total": 2})
        assert (first["state"], second["state"]) == ("active", "cordoned")
        assert after.client.place(token, device="phone") == {"broker": "a", "url": "http://127.0.0.1:1"}
        with pytest.raises(ServerError, match="revoked"):
            after.client.place(revoked)
        assert after.client.log_in("ann", _PASSWORD)["user"] == "ann"
        answer = after.client.heartbeat("b", {})
        assert answer["lost"] == ["ann/laptop"], "who lost something before the kill is told after it"
        assert set(answer["revoked"]) == {"bob"}
        seen = {"revocations_seen": answer["revocations_version"]}
        assert after.client.heartbeat("b", seen)["revoked"] == {}
        assert after.client.register_broker("a", "http://127.0.0.1:1")["public_keys"] == key
        began_s = time.monotonic()
        after.process.send_signal(signal.SIGTERM)
        assert after.process.wait(_PATIENCE_S) in {0, -signal.SIGTERM}
        assert time.monotonic() - began_s < 10
    assert "Finished server process" in after.log.read_text()


def test_a_silent_broker_is_dead_and_comes_back(tmp_path: Path) -> None:
    """Its subscribers are placed elsewhere when they ask, and lost to it once they are claimed there."""
    with serving(tmp_path, dead_after_s=1) as url, ActingBroker(url) as client:
        token = client.register("ann", _PASSWORD)["token"]
        client.register_broker("a", "http://127.0.0.1:1")
        client.register_broker("b", "http://127.0.0.1:2")
        client.claim("a", ["ann/phone"])
        deadline = time.monotonic() + _PATIENCE_S
        while client.broker("a")["state"] != "dead":
            client.heartbeat("b", {})
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert client.broker("b")["state"] == "active"
        assert client.status()["brokers"] == {"active": 1, "cordoned": 0, "draining": 0, "dead": 1}
        assert client.session("ann", "phone")["generation"] == 1
        assert client.place(token, device="phone")["broker"] == "b"
        assert client.claim("b", ["ann/phone"]) == {"ann/phone": 2}
        answer = client.heartbeat("a", {})
        assert answer.pop("peers_version")
        assert answer == {
            "state": "active",
            "peers": {"b": "http://127.0.0.1:2"},
            "lost": ["ann/phone"],
            "prepare": [],
            "adopt": [],
            "move": [],
            "next_in_s": 1,
            "revoked": {},
            "revocations_version": 0,
            "public_keys": client.register_broker("c", "http://127.0.0.1:3")["public_keys"],
        }


def test_tls_takes_two_settings(tmp_path: Path) -> None:
    """A certificate and its key; only one of them, or what is neither, is told plainly before anything is served."""
    certificate, key = write_certificate(tmp_path)
    with running(tmp_path, tls_certificate=certificate, tls_key=key) as coordinator:
        trusting = ssl.create_default_context(cafile=certificate)
        assert httpx.get(f"{coordinator.url}/healthz", verify=trusting).json() == {"state": "ready"}
    cert = str(certificate)
    for certificate_file, key_file, words in ((cert, "", "both"), (cert, cert, "can't be used"), ("no", "no", "can't")):
        with pytest.raises(InvalidValue, match=words):
            serve(CoordinatorSettings(tmp_path / "data", tls_certificate=certificate_file, tls_key=key_file))


def _refused(call: Any, *given: Any, status: int) -> None:
    with pytest.raises(ServerError) as caught:
        call(*given)
    assert caught.value.status == status, caught.value.error


def test_what_is_for_operators_is_refused_to_others(guarded: Coordinator) -> None:
    """Without a token, with a wrong one, and with a user's."""
    user = ActingBroker(guarded.url).register("au-ann", _PASSWORD)["token"]
    for token in ("", "wrong", user):
        with ActingBroker(guarded.url, token=token) as client:
            for call, given_ in (
                (client.status, ()),
                (client.users, ()),
                (client.remove_user, ("au-ann",)),
                (client.revoke, ("au-ann",)),
                (client.brokers, ()),
                (client.register_broker, ("au", "http://x")),
                (client.heartbeat, ("au", {})),
                (client.claim, ("au", [])),
                (client.move_away, ("au", [])),
                (client.set_state, ("au", "active")),
                (client.remove_broker, ("au",)),
                (client.subscribers, ()),
                (client.session, ("a", "b")),
                (client.policy, ()),
                (client.choose_policy, ("random",)),
            ):
                _refused(call, *given_, status=401)
            assert client._http.get("/metrics").status_code == 401
            assert client._http.post("/v1/users/au-ann/tokens").status_code == 401
            assert client._http.post("/v1/users", json={"name": "au-none"}).status_code == 403
            _refused(client.register, "au-eve", _PASSWORD, "medic", status=403)
    assert guarded.client.register("au-medic", _PASSWORD, "medic")["user"] == "au-medic"


def test_registration_can_be_closed(tmp_path: Path) -> None:
    """Then strangers are refused, and operators register users."""
    with serving(tmp_path, api_token=_OPERATOR, open_registration=False) as url:
        with ActingBroker(url) as stranger:
            _refused(stranger.register, "ann", _PASSWORD, status=401)
        with ActingBroker(url, token=_OPERATOR) as operator:
            assert operator.register("ann", _PASSWORD)["user"] == "ann"


def test_attacks_with_tokens_are_refused(guarded: Coordinator) -> None:
    """Forged, expired, of another algorithm or audience, unsigned, revoked: 401, and not a word more."""
    guarded.client.register_broker("at", "http://127.0.0.1:1")
    good = guarded.client.register("at-ann", _PASSWORD)["token"]
    assert guarded.client.place(good)["broker"]
    header, body, signature = good.split(".")
    forged = f"{header}.{body[:-4]}{body[-4:][::-1]}.{signature}"
    for name, token in {**ATTACKS, "forged": forged}.items():
        sent = b"Bearer " + token.encode("utf-8", "surrogatepass").replace(b"\x00", b"")
        headers = [(b"Authorization", sent.strip())]
        response = httpx.post(f"{guarded.url}/v1/placements", json={}, headers=headers)
        assert response.status_code == 401, name
        assert response.json()["error"]["code"] == "unauthorised"
    guarded.client.revoke("at-ann")
    _refused(guarded.client.place, good, status=401)
    again = guarded.client.log_in("at-ann", _PASSWORD)["token"]
    assert guarded.client.place(again)["broker"]
    guarded.client.remove_user("at-ann")
    _refused(guarded.client.place, again, status=401)
    _refused(guarded.client.log_in, "at-ann", _PASSWORD, status=401)


def test_an_expired_token_is_refused(tmp_path: Path) -> None:
    """The answer says that it has expired."""
    with serving(tmp_path, token_lifetime_s=1e-6) as url, ActingBroker(url) as client:
        token = client.register("ann", _PASSWORD)["token"]
        with pytest.raises(ServerError, match="expired"):
            client.place(token)


def test_guessing_passwords_is_limited(tmp_path: Path) -> None:
    """The same answer whether there is such a user; after ten failures one has to wait, and is told how long."""
    with serving(tmp_path) as url, ActingBroker(url) as client:
        client.register("ann", _PASSWORD)
        for name in ("ann", "nobody"):
            for _ in range(10):
                _refused(client.log_in, name, "wrong", status=401)
            response = httpx.post(f"{url}/v1/tokens", json={"name": name, "password": _PASSWORD})
            assert response.status_code == 429
            assert 0 < int(response.headers["Retry-After"]) <= 60
        _refused(client.register, "ann", _PASSWORD, status=409)
        _refused(client.register, "bob", "short", status=422)


def test_brokers_and_subscribers_as_operators_see_them(guarded: Coordinator) -> None:
    client = guarded.client
    client.register_broker("op-a", "https://broker.example:443/", location=[0, 0])
    client.claim("op-a", ["op-ann/phone", "op-ann/laptop"])
    assert client.broker("op-a")["url"] == "https://broker.example:443"
    assert [one["subscriber"] for one in client.subscribers(broker="op-a")] == ["op-ann/laptop", "op-ann/phone"]
    assert [one["subscriber"] for one in client.subscribers("op-a", "op-ann/laptop")] == ["op-ann/phone"]
    _refused(client.remove_broker, "op-a", status=409)
    _refused(client.session, "op-ann", "nothing", status=404)
    _refused(client.heartbeat, "op-nobody", {}, status=404)
    _refused(client.set_state, "op-a", "dead", status=422)
    _refused(client.choose_policy, "best", status=422)
    for url in ("ftp://x", "http://", "http://a b", "http://u:p@x", "http://x?q", "http://x:99999", "nonsense"):
        _refused(client.register_broker, "op-a", url, status=422)
    client.set_state("op-a", "draining")
    assert client.heartbeat("op-a", {})["state"] == "draining"
    placements = client.move_away("op-a", ["op-ann/phone"])
    assert all(one["broker"] != "op-a" for one in placements.values())
    assert client.remove_broker("op-a")["subscribers"] == 2
    metrics = httpx.get(f"{guarded.url}/metrics", headers=[(b"Authorization", f"Bearer {_OPERATOR}".encode())]).text
    assert 'tocsin_coordinator_brokers{state="dead"}' in metrics
    assert "tocsin_coordinator_heartbeats_total" in metrics


@pytest.fixture
def tocsin(guarded: Coordinator):  # type: ignore[no-untyped-def]
    def run(*arguments: str, stdin: str = "") -> Result:
        environment = {"COLUMNS": "200", "TOCSIN_COORDINATOR_TOKEN": _OPERATOR, "TOCSIN_COORDINATOR_URL": guarded.url}
        return CliRunner().invoke(app, list(arguments), input=stdin, env=environment)

    return run


def test_users_from_the_command_line(guarded: Coordinator, tocsin) -> None:  # type: ignore[no-untyped-def]
    """Added, listed, given tokens, revoked and removed; passwords come from standard input."""
    guarded.client.register_broker("cl-b", "http://127.0.0.1:8")
    done = tocsin("users", "add", "cl-ann", "--permission", "medic", stdin=f"{_PASSWORD}\n")
    assert done.exit_code == 0, done.output
    assert guarded.client.place(done.stdout.splitlines()[-1])["broker"]
    token = tocsin("users", "token", "cl-ann", stdin=f"{_PASSWORD}\n").stdout.strip()
    assert token.count(".") == 2
    listed = json.loads(tocsin("users", "list", "--json").stdout)
    assert [one["permission"] for one in listed if one["name"] == "cl-ann"] == ["medic"]
    assert "cl-ann" in tocsin("users", "list").stdout
    assert tocsin("users", "revoke", "cl-ann").exit_code == 0
    _refused(guarded.client.place, token, status=401)
    assert tocsin("users", "remove", "cl-ann").exit_code == 0
    for arguments, words in (
        (("users", "remove", "cl-ann"), "no user called cl-ann"),
        (("users", "token", "cl-ann", "--password", "wrong-one"), "no such user, or another password"),
        (("users", "token", "cl-ann"), "no password given"),
        (("users", "list", "--url", "http://127.0.0.1:1"), "no coordinator answers"),
        (("users", "list", "--token", "wrong"), "API token"),
    ):
        done = tocsin(*arguments)
        assert done.exit_code == 1
        assert words in done.stderr


def test_brokers_from_the_command_line(guarded: Coordinator, tocsin) -> None:  # type: ignore[no-untyped-def]
    """Listed, shown, cordoned, drained, removed; and the policy."""
    guarded.client.register_broker("cl-a", "http://127.0.0.1:9")
    assert "http://127.0.0.1:9" in tocsin("brokers", "list").stdout
    assert "cl-a" in [one["name"] for one in json.loads(tocsin("brokers", "list", "--json").stdout)]
    assert "load_total" in tocsin("brokers", "show", "cl-a").stdout
    for command, state in (("cordon", "cordoned"), ("uncordon", "active"), ("drain", "draining")):
        done = tocsin(command, "cl-a")
        assert done.stdout == f"broker cl-a is {'empty' if command == 'drain' else state}\n"
        assert json.loads(tocsin("brokers", "show", "cl-a", "--json").stdout)["state"] == state
    assert tocsin("brokers", "remove", "cl-a").exit_code == 0
    assert "no broker called cl-a" in tocsin("brokers", "show", "cl-a").stderr
    before = json.loads(tocsin("brokers", "policy", "--json").stdout)["policy"]
    assert tocsin("brokers", "policy", "nearest").stdout.startswith("nearest")
    assert tocsin("brokers", "policy", "best").exit_code == 1
    assert json.loads(tocsin("brokers", "policy", before, "--json").stdout)["policy"] == before


def test_a_plan_says_what_could_be_moved_and_moves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP and from the command line; the loads are what brokers have told."""
    with serving(tmp_path, rates_window_s=2.0) as url, ActingBroker(url) as client:
        with pytest.raises(ServerError, match="there is no broker to plan for"):
            client.make_plan()
        for name in ("a", "b"):
            client.register_broker(name, f"http://{name}")
        flood = {"channel": "EmergenciesOfType", "parameters": {"etype": "flood"}}
        crowd = [f"u{number}/phone" for number in range(6)]
        sessions = [
            {
                "subscriber": one,
                "generation": generation,
                "connected": True,
                "subscriptions": [{**flood, "position": "1-0"}],
            }
            for one, generation in client.claim("a", crowd).items()
        ]
        client.heartbeat("a", {"changed": sessions})

        def publish() -> None:
            """Results come, until they show in the load."""
            deadline = time.monotonic() + _PATIENCE_S
            while client.broker("a")["loads"]["total"] <= 7:
                assert time.monotonic() < deadline, "the broker's word changes nothing"
                client.heartbeat("a", {"pulled": [{**flood, "size_bytes": 4000}]})
                client.heartbeat("b", {})

        publish()
        made = client.make_plan(stage="migration", policy="ldm", reason="to see", shown_moves=1)
        assert (made["policy"], made["reason"], len(made["moves"])) == ("ldm", "to see", 1)
        assert made["after"]["cov"] < made["before"]["cov"] == pytest.approx(1.0)
        assert made["move_count"] == 3
        (move,) = made["moves"]
        assert (move["source"], move["destination"]) == ("a", "b")
        assert "most loaded" in move["reason"]
        assert {one["broker"] for one in client.subscribers()} == {"a"}, "nobody was moved"
        assert [one["plan"] for one in client.plans()] == [made["plan"]]
        assert len(client.plan(made["plan"])["moves"]) == 3
        monkeypatch.setenv("TOCSIN_COORDINATOR_URL", url)
        runner = CliRunner()
        publish()
        shown = runner.invoke(app, ["plan", "--stage", "shuffle", "--policy", "gsh", "--moves", "2"])
        assert shown.exit_code == 0, shown.stderr
        assert "shuffle by gsh" in shown.stdout
        assert "and 1 more" in shown.stdout
        assert "No subscriber has been moved" in shown.stdout
        assert len(json.loads(runner.invoke(app, ["plan", "--list", "--json"]).stdout)) == 2
        assert json.loads(runner.invoke(app, ["plan", made["plan"], "--json"]).stdout)["plan"] == made["plan"]
        refused = runner.invoke(app, ["plan", "--policy", "lbm"])
        assert refused.exit_code == 1
        assert "there are: group, ldm, sdm" in refused.stderr
        assert "no plan nosuch" in runner.invoke(app, ["plan", "nosuch"]).stderr


def test_the_api_does_what_its_document_says(tmp_path: Path) -> None:
    """Whatever is sent: no failure of ours, and no status, content type or shape that the document does not tell."""
    known_names = {"name": "fuzz", "user": "fuzz", "device": "phone", "plan": ""}
    tokens: list[str] = []
    with serving(tmp_path) as url, ActingBroker(url) as client:

        def prepare() -> None:
            if not any(one["name"] == "fuzz" for one in client.users()):
                client.register("fuzz", _PASSWORD)
            tokens.append(client.log_in("fuzz", _PASSWORD)["token"])
            client.register_broker("fuzz", "http://127.0.0.1:1")
            client.claim("fuzz", ["fuzz/phone"])
            known_names["plan"] = client.make_plan()["plan"]

        def adapt(case: schemathesis.Case, known: bool) -> dict[str, str] | None:
            for name in case.path_parameters if known else ():
                case.path_parameters[name] = known_names[name]
            if known and isinstance(case.body, dict):
                case.body.pop("identity", None)  # Else the name is another's from then on.
            if case.operation.path == "/v1/forget" and isinstance(case.body, dict):
                case.body["wait_s"] = 0  # There is no broker behind the one that is registered.
            return {"Authorization": f"Bearer {tokens[-1]}"} if known else None

        check_document(url, adapt, operations=37, examples=8, before_each=prepare)
        assert httpx.get(f"{url}/healthz").json() == {"state": "ready"}


def test_the_document_and_the_reference_name_the_same_routes(guarded: Coordinator) -> None:
    """Every route is described, in OpenAPI and for people."""
    document = httpx.get(f"{guarded.url}/openapi.json").json()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert set(re.findall(r"^### `(\w+) (/\S+)`", _DOCS.read_text(), re.MULTILINE)) == described
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), f"{method} {path} has no words"
    assert httpx.get(f"{guarded.url}/docs").status_code == 404
