"""A person whom the coordinator forgets is in none of its rows and files, and brokers that are away are told later."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from databases import Database
from tocsin.coordinator.forgetting import Acknowledgements
from tocsin.coordinator.load.stages import Stage
from tocsin.coordinator.moves.table import MoveRecord, PlanRun, Step
from tocsin.coordinator.registry.events import PersonForgotten, PlanBegun, ReportedSession
from tocsin.coordinator.registry.instructions import Audit, ForgetSession, StoreMove, StoreSession
from tocsin.coordinator.registry.records import SessionRecord
from tocsin.coordinator.registry.session_wire import known_people
from tocsin.coordinator.server import make_app
from tocsin.coordinator.store.registry_store import Store, UserRecord
from tocsin.coordinator.store.tables import open_tables
from tocsin.errors import Unauthorised
from tocsin.model.people import FORGOTTEN, fingerprint
from tocsin.protocol.coordination import ReportedSubscription, Session
from tocsin.runtime.clock import SystemClock
from tocsin.runtime.tokens import Identity, TokenChecker, TokenSigner
from tocsin.settings import CoordinatorSettings
from unit.coordinator.network import Network, held

_NAME = "zoe.okonkwo"
_NEAR_HER = f'["Near",{{"who":"{_NAME}"}},""]'
_NEAR_BOB = '["Near",{"who":"bob"},""]'


def _files_with(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if _NAME.encode() in path.read_bytes())


def test_a_forgotten_person_is_in_no_file_of_the_database(database: Database) -> None:
    """Neither as a user, nor in what was revoked, planned, moved and done; what was done stays written down without the
    name, and so do others."""
    store = Store(open_tables(database), SystemClock())
    for name in (_NAME, "bob"):
        store.add_user(UserRecord(name, "hash", "", 1))
    store.revoke(_NAME, 5)
    store.revoke("bob", 5)
    done = MoveRecord("plan-1", 1, f"{_NAME}/phone", "north", "south", 1.0, "uneven", Step.DONE)
    store.apply(
        [
            StoreMove(done),
            Audit("plan", "move", f"{_NAME}/phone", {"plan": "plan-1", "with": [f"{_NAME}/watch", "bob/phone"]}),
            Audit(_NAME, "drain", "north"),
            Audit("bob", "drain", "south", {_NAME + "s": 1}),
        ]
    )
    revocation, was_there = store.forget_person(_NAME, 9)
    assert (revocation.user, was_there) == (fingerprint(_NAME), True)
    store.erase_traces(_NAME)
    newest, *older = store.plans.audit(None, 10)
    assert (newest.who, newest.details) == ("bob", {_NAME + "s": 1})
    assert [(one.who, one.subject) for one in older] == [(FORGOTTEN, "north"), ("plan", FORGOTTEN)]
    assert older[1].details["with"] == [FORGOTTEN, "bob/phone"]
    store.apply([Audit("bob", "drain", "south")])
    found, _ = store.revocations(10, 100)
    assert found.keys() == {fingerprint(_NAME), "bob"}
    store.close()
    again = Store(open_tables(database), SystemClock())
    assert [one.name for one in again.users("", 10)] == ["bob"]
    again.close()


def test_the_name_is_in_no_page_of_the_database(tmp_path: Path) -> None:
    """Also of rows that had been deleted before."""
    store = Store(open_tables(tmp_path / "c.sqlite"), SystemClock())
    for number in range(200):
        store.apply([StoreSession(SessionRecord(f"{_NAME}/{number}", "north", 1, subscriptions=held(_NEAR_HER)))])
    assert _files_with(tmp_path)
    store.forget_person(_NAME, 9)
    store.apply([ForgetSession(f"{_NAME}/{number}") for number in range(200)])
    store.erase_traces(_NAME)
    assert _files_with(tmp_path) == []
    store.close()


def test_fingerprints_are_kept_for_brokers_that_are_away(database: Database) -> None:
    """Longer than revocations whose tokens have all expired, and not for ever."""
    store = Store(open_tables(database), SystemClock())
    day_us = 86_400_000_000
    store.add_user(UserRecord("bob", "hash", "", 1))
    store.revoke("bob", day_us)
    store.forget_person(_NAME, day_us)
    assert store.revocations(30 * day_us, day_us)[0].keys() == {fingerprint(_NAME)}
    assert store.revocations(92 * day_us, day_us)[0] == {}
    store.close()


@pytest.fixture
def network() -> Network:
    network = Network()
    for broker in ("north", "south"):
        network.register(broker)
    return network


def test_sessions_of_a_forgotten_person_go_at_once(network: Network) -> None:
    """Also while a broker that keeps one is away, and what others hold with the name as a value goes with them."""
    network.claim("north", f"{_NAME}/phone", "bob/phone")
    network.heartbeat(
        "north",
        ReportedSession(f"{_NAME}/phone", 1, False, held(_NEAR_HER)),
        ReportedSession("bob/phone", 1, False, held(_NEAR_HER, _NEAR_BOB)),
    )
    network.handle(PersonForgotten(_NAME))
    assert network.state.session(f"{_NAME}/phone") is None
    (bob,) = network.state.sessions()
    assert [one.key for one in bob.subscriptions] == [_NEAR_BOB]
    assert _NAME not in repr(network.stored_sessions)


def test_moves_of_a_forgotten_person_are_written_down_without_the_name(network: Network) -> None:
    """Those under way and those that wait; others' go on, and the plan ends with them."""
    network.claim("north", f"{_NAME}/phone", f"{_NAME}/watch", "bob/phone")
    moves = [
        MoveRecord("plan-1", number, who, "north", "south", 1.0, "uneven")
        for number, who in enumerate((f"{_NAME}/phone", f"{_NAME}/watch", "bob/phone"))
    ]
    run = PlanRun("plan-1", Stage.MIGRATION, "ldm", "uneven", "operator", 3, "{}")
    network.handle(PlanBegun(run, moves))
    network.heartbeat("south")
    written = network.handle(PersonForgotten(_NAME))
    assert _NAME not in repr([one for one in written if isinstance(one, StoreMove | Audit)])
    ended = [one.move for one in written if isinstance(one, StoreMove)]
    assert [(one.number, one.subscriber, one.step) for one in ended] == [
        (0, FORGOTTEN, Step.CANCELLED),
        (1, FORGOTTEN, Step.CANCELLED),
    ]


def test_what_a_broker_says_before_it_has_forgotten_is_not_kept_again() -> None:
    """It was away, and reports what it has from before."""
    her_own, bobs = (
        ReportedSubscription(channel="Near", parameters={"who": who}, position="1-0") for who in (_NAME, "bob")
    )
    sessions = [
        Session(subscriber=f"{_NAME}/phone", generation=1, subscriptions=[bobs]),
        Session(subscriber="bob/phone", generation=1, subscriptions=[her_own, bobs]),
    ]
    assert known_people(sessions, ()) == sessions
    (bob,) = known_people(sessions, {fingerprint(_NAME)})
    assert (bob.subscriber, bob.subscriptions) == ("bob/phone", [bobs])


def test_tokens_of_a_forgotten_person_are_void_by_the_fingerprint() -> None:
    """Who takes the name later has tokens that are good."""
    signer = TokenSigner(Ed25519PrivateKey.generate())
    checker = TokenChecker(signer.public_key())
    checker.revoke(fingerprint(_NAME), 100)
    with pytest.raises(Unauthorised):
        checker.check(signer.sign(Identity(_NAME, "", 99, 10_000)), 150)
    assert checker.check(signer.sign(Identity(_NAME, "", 100, 10_000)), 150).user == _NAME
    assert checker.check(signer.sign(Identity("bob", "", 99, 10_000)), 150).user == "bob"


async def test_brokers_are_waited_for_and_those_that_are_away_are_named() -> None:
    """A broker has done it when it says so, not when it was told."""
    known = Acknowledgements()
    waiting = asyncio.create_task(known.wait(["north", "south"], 3, 10))
    await asyncio.sleep(0)
    known.note("north", 3)
    known.note("south", 2)
    await asyncio.sleep(0)
    assert not waiting.done()
    known.note("south", 4)
    assert await waiting == ()
    assert await known.wait(["north", "east"], 3, 0.01) == ("east",)


async def test_the_command_asks_brokers_and_takes_no_name_back(tmp_path: Path) -> None:
    """Who has not said that it is done is away; what it claims and reports of the person until then is not kept. Once
    it is done, whoever has the name by then is a subscriber like others."""
    app = make_app(CoordinatorSettings(data_dir=tmp_path))
    async with (
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://c") as http,
        app.router.lifespan_context(app),
    ):
        await http.put("/v1/brokers/north", json={"url": "http://north:1"})
        await http.post("/v1/users", json={"name": _NAME, "password": "correct horse battery"})
        claim = {"subscribers": [f"{_NAME}/phone", "bob/phone"]}
        assert (await http.post("/v1/brokers/north/claims", json=claim)).json()["generations"][f"{_NAME}/phone"] == 1
        answer = (await http.post("/v1/forget", json={"name": _NAME, "wait_s": 0})).json()
        assert answer == {"user": True, "sessions": 1, "brokers": [], "away": ["north"]}
        generations = (await http.post("/v1/brokers/north/claims", json=claim)).json()["generations"]
        assert generations == {"bob/phone": 2}
        told = {"subscriber": f"{_NAME}/phone", "generation": 1}
        heard = (await http.post("/v1/brokers/north/heartbeats", json={"changed": [told]})).json()
        assert list(heard["revoked"]) == [fingerprint(_NAME)]
        assert _files_with(tmp_path) == []
        await http.post("/v1/brokers/north/heartbeats", json={"revocations_seen": heard["revocations_version"]})
        generations = (await http.post("/v1/brokers/north/claims", json=claim)).json()["generations"]
        assert generations == {"bob/phone": 3, f"{_NAME}/phone": 1}
        (entry,) = (await http.get("/v1/audit")).json()["entries"]
        assert (entry["who"], entry["action"], entry["subject"]) == ("operator", "forget", FORGOTTEN)
