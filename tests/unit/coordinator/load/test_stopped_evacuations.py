"""An operator who stops the emptying of a broker is heeded until an operator wants it again."""

from __future__ import annotations

import asyncio

import pytest

from databases import Database
from tocsin.coordinator.load.stages import BalancingSettings
from tocsin.coordinator.moves.table import MoveRecord, PlanRun
from tocsin.coordinator.registry.events import (
    BrokerModeSet,
    BrokerRemoved,
    Event,
    PlanBegun,
    PlanStopped,
    ReportedSession,
)
from tocsin.coordinator.registry.instructions import Instruction, StoreStoppedEvacuations
from tocsin.coordinator.stage_runner import Balancer
from tocsin.coordinator.store.registry_store import Store
from tocsin.coordinator.store.tables import open_tables
from tocsin.errors import NotFound
from tocsin.protocol.coordination import BrokerState
from tocsin.runtime.clock import SystemClock
from unit.coordinator.network import Network, held


class _Clock(SystemClock):
    def __init__(self, network: Network) -> None:
        self._network = network

    def monotonic_s(self) -> float:
        return self._network.now_s


@pytest.fixture
def network() -> Network:
    network = Network()
    network.register("a", "b", "c")
    network.claim("a", "ann/phone", "bob/phone")
    network.heartbeat("a", *(ReportedSession(f"{one}/phone", 1, True, held("fire")) for one in ("ann", "bob")))
    return network


def _balancer(network: Network) -> Balancer:
    async def happened(event: Event) -> list[Instruction]:
        return network.handle(event)

    return Balancer(network.state, happened, _Clock(network), BalancingSettings())


def _leaving(network: Network) -> frozenset[str]:
    return network.state.leaving(network.now_s, 30)


def _empty(network: Network, broker: str) -> None:
    moves = [
        MoveRecord("p", number, f"{one}/phone", broker, "b", 1.0, "drained")
        for number, one in enumerate(("ann", "bob"))
    ]
    network.handle(PlanBegun(PlanRun("p", "evacuation", "evacuation", "drained", "automatic", 2), moves))


def _drained_and_stopped(network: Network) -> None:
    network.handle(BrokerModeSet("a", BrokerState.DRAINING))
    _empty(network, "a")
    network.handle(PlanStopped("p", "ann"))


def test_it_stays_stopped_until_the_broker_is_drained_again(network: Network) -> None:
    """Nor does a restart of the coordinator begin it again, or a restart of the broker, which is still drained."""
    _drained_and_stopped(network)
    assert _leaving(network) == frozenset()
    network.restart()
    network.register("a", "b", "c")
    network.heartbeat("a")
    assert _leaving(network) == frozenset()
    assert network.state.stopped_evacuations == {"a"}
    network.handle(BrokerModeSet("a", BrokerState.DRAINING))
    assert _leaving(network) == {"a"}
    assert network.stored_stopped == ()


def test_other_brokers_are_emptied_all_the_same(network: Network) -> None:
    """What was stopped is about those brokers alone that the plan was emptying."""
    network.claim("c", "eve/phone")
    _drained_and_stopped(network)
    network.handle(BrokerModeSet("c", BrokerState.DRAINING))
    assert _leaving(network) == {"c"}


def test_stopping_another_plan_stops_no_evacuation(network: Network) -> None:
    """A shuffle that is stopped says nothing about brokers that leave later."""
    move = MoveRecord("p", 0, "ann/phone", "a", "b", 1.0, "uneven")
    network.handle(PlanBegun(PlanRun("p", "shuffle", "gsh", "uneven", "me", 1), [move]))
    network.handle(PlanStopped("p", "ann"))
    network.handle(BrokerModeSet("a", BrokerState.DRAINING))
    assert _leaving(network) == {"a"}


def test_a_dead_broker_that_is_back_may_die_again(network: Network) -> None:
    """Its next death is another matter."""
    network.pass_time(60, heard=("b", "c"))
    assert _leaving(network) == {"a"}
    _empty(network, "a")
    network.handle(PlanStopped("p", "ann"))
    assert _leaving(network) == frozenset()
    network.heartbeat("a")
    assert network.state.stopped_evacuations == frozenset()
    network.pass_time(60, heard=("b", "c"))
    assert _leaving(network) == {"a"}


def test_a_broker_that_is_gone_is_emptied_once_it_is_removed_again(network: Network) -> None:
    """There is no state to set for it any more."""
    network.handle(BrokerModeSet("a", BrokerState.DRAINING))
    network.handle(BrokerRemoved(network.now_s, "a"))
    _empty(network, "a")
    network.handle(PlanStopped("p", "ann"))
    assert _leaving(network) == frozenset()
    network.handle(BrokerRemoved(network.now_s, "a"))
    assert _leaving(network) == {"a"}
    with pytest.raises(NotFound):
        network.handle(BrokerRemoved(network.now_s, "a"))


def test_the_balancer_begins_nothing_and_says_why(network: Network) -> None:
    """It looked again and again, and each time began what had just been stopped."""

    async def run() -> None:
        network.handle(BrokerModeSet("a", BrokerState.DRAINING))
        balancer = _balancer(network)
        await balancer.look()
        (first,) = network.state.execution.runs
        assert first.stage == "evacuation"
        await balancer.stop(first.plan, "ann")
        for _ in range(3):
            await balancer.look()
            assert not network.state.execution.runs
        assert "emptying a was stopped: drain it again to go on" in balancer.verdict
        network.handle(BrokerModeSet("a", BrokerState.DRAINING, "ann"))
        await balancer.look()
        assert [run.stage for run in network.state.execution.runs] == ["evacuation"]

    asyncio.run(run())


def test_it_is_stored(database: Database) -> None:
    """All of them, under one name."""
    store = Store(open_tables(database), SystemClock())
    assert store.load().stopped_evacuations == ()
    store.apply([StoreStoppedEvacuations(("a", "b"))])
    assert store.load().stopped_evacuations == ("a", "b")
    store.apply([StoreStoppedEvacuations(())])
    assert store.load().stopped_evacuations == ()
    store.close()
