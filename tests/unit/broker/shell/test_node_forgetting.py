"""A person whom the coordinator has forgotten is in none of a broker's rows and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tocsin.broker.core.events import Delivery, ResultsPulled
from tocsin.broker.core.instructions import Report
from tocsin.errors import NotFound, Unavailable
from tocsin.model.people import fingerprint
from tocsin.protocol.coordination import BrokerState, Heartbeat, HeartbeatAnswer
from tocsin.protocol.messages import Failed, Subscribed
from unit.broker.nodes import Broker, Line

_NAME = "zoe.okonkwo"
_BEFORE_US = 1_000


def _files_with(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file() and _NAME.encode() in path.read_bytes())


class _Heartbeats:
    """What a broker reports, and what it is answered: revocations up to the newest version that it has not seen."""

    def __init__(self, broker: Broker, *revoked: str) -> None:
        self.heard: list[Heartbeat] = []
        self._revoked = revoked
        coordination: Any = broker.node._coordination
        coordination._happened = broker.node.happened
        coordination._link.report = self._report
        coordination._link.claim = self._claim
        self.report_once = coordination.report_once

    async def _report(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        self.heard.append(heartbeat)
        return HeartbeatAnswer(
            state=BrokerState.ACTIVE,
            lost=[],
            revoked=dict.fromkeys(self._revoked[heartbeat.revocations_seen :], _BEFORE_US),
            revocations_version=len(self._revoked),
        )

    async def _claim(self, subscribers: list[str]) -> tuple[dict[str, int], list[Any]]:
        return dict.fromkeys(subscribers, 1), []


async def _subscribe(broker: Broker, line: Line, who: str) -> None:
    await broker.say(line, f'{{"type":"subscribe","channel":"Near","parameters":{{"who":"{who}"}},"request":1}}')


async def _made(folder: Path) -> tuple[Broker, Line, Line]:
    broker = Broker(folder)
    zoe, bob = await broker.line(_NAME), await broker.line("bob")
    for line, who in ((zoe, "bob"), (zoe, _NAME), (bob, "bob"), (bob, _NAME)):
        await _subscribe(broker, line, who)
    broker.store.store_revocations({_NAME: 1, "bob": 1}, are_all=True)
    return broker, zoe, bob


async def test_nothing_names_a_forgotten_person(tmp_path: Path) -> None:
    """Their sessions end, others lose what they follow of them and are told, and no file of the store holds the name;
    the coordinator hears of it when it is done."""
    broker, zoe, bob = await _made(tmp_path)
    assert _files_with(tmp_path)
    heartbeats = _Heartbeats(broker, "bobby", fingerprint(_NAME))
    await heartbeats.report_once()
    assert zoe.closed is not None
    (told,) = [one for one in bob.sent if isinstance(one, Failed)]
    assert (told.code, told.reason) == (NotFound.code, "the person whom this subscription names was removed")
    (kept,) = broker.store.sessions()
    assert [one.key.parameter_values() for one in kept.subscriptions] == [{"who": "bob"}]
    assert broker.store.revocations().keys() == {"bobby", fingerprint(_NAME)}
    assert _files_with(tmp_path) == []
    assert [one.revocations_seen for one in heartbeats.heard] == [0]
    await heartbeats.report_once()
    assert heartbeats.heard[-1].revocations_seen == 2
    broker.store.close()
    again = Broker(tmp_path)
    assert [one.subscriber for one in again.store.sessions()] == ["bob/d"]
    again.store.close()


async def test_results_in_memory_go_too(tmp_path: Path) -> None:
    """Whom they name is known to the cluster alone, so that whoever has missed them gets from there what is left."""
    broker, _, bob = await _made(tmp_path)
    (kept,) = [one for one in bob.sent if isinstance(one, Subscribed) and one.parameters == {"who": "bob"}]
    one = Delivery(kept.subscription, 300, b'{"who":"bob","seen_with":"zoe.okonkwo"}')
    broker.node.happened(ResultsPulled(1 << 30, [], 200, 9.0))
    broker.node.happened(ResultsPulled(1 << 30, [one], 300, 10.0))
    assert broker.state.cache.size_bytes
    await _Heartbeats(broker, fingerprint(_NAME)).report_once()
    assert broker.state.cache.size_bytes == 0
    assert broker.state.cache.after(kept.subscription, 200) is None
    assert broker.state.cache.after(kept.subscription, 300) == []
    broker.store.close()


async def test_what_could_not_be_removed_from_files_is_not_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker asks again, and then it is."""
    broker, _, _ = await _made(tmp_path)
    heartbeats = _Heartbeats(broker, fingerprint(_NAME))

    def held_up(_people: object) -> None:
        raise Unavailable("somebody reads", retry_after_s=1)

    with monkeypatch.context() as patch:
        patch.setattr(broker.store, "erase_traces", held_up)
        await heartbeats.report_once()
    await heartbeats.report_once()
    assert heartbeats.heard[-1].revocations_seen == 0
    assert _files_with(tmp_path) == []
    await heartbeats.report_once()
    assert heartbeats.heard[-1].revocations_seen == 1
    broker.store.close()


async def test_whoever_takes_the_name_later_keeps_what_is_theirs(tmp_path: Path) -> None:
    """A broker that starts again is told of all who were forgotten, and forgets nobody twice."""
    broker, _, _ = await _made(tmp_path)
    await _Heartbeats(broker, fingerprint(_NAME)).report_once()
    await _subscribe(broker, await broker.line(_NAME), "bob")
    broker.store.close()
    again = Broker(tmp_path)
    await _Heartbeats(again, fingerprint(_NAME)).report_once()
    assert {one.subscriber for one in again.store.sessions()} == {f"{_NAME}/d", "bob/d"}
    again.store.close()


async def test_a_broker_that_ends_before_it_is_done_forgets_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had been told, and had removed nothing yet."""
    broker, _, _ = await _made(tmp_path)
    heartbeats = _Heartbeats(broker, fingerprint(_NAME))

    class Killed(BaseException):
        pass

    def killed(_event: object) -> None:
        raise Killed

    monkeypatch.setattr(broker.node._coordination, "_happened", killed)
    monkeypatch.setattr(broker.node._coordination, "_next_report", lambda: Report([], {}, [], {}))
    with pytest.raises(Killed):
        await heartbeats.report_once()
    broker.store.close()
    assert _files_with(tmp_path)
    again = Broker(tmp_path)
    await _Heartbeats(again, fingerprint(_NAME)).report_once()
    assert _files_with(tmp_path) == []
    again.store.close()
