"""The broker's shell: what it does when it has made a mistake."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from tocsin.broker.core.limits import Limits
from tocsin.broker.core.machine import BrokerState
from tocsin.broker.shell.cluster_link import ClusterLink
from tocsin.broker.shell.coordination import Coordination
from tocsin.broker.shell.coordinator_link import CoordinatorLink
from tocsin.broker.shell.metrics import BrokerMetrics
from tocsin.broker.shell.node import BrokerNode
from tocsin.broker.shell.store import SessionStore
from tocsin.protocol.coordination import BrokerRegistration
from tocsin.runtime.clock import SystemClock
from tocsin.settings import BrokerSettings

pytestmark = pytest.mark.shell

#: Nobody answers there: a broker goes on trying.
_NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[BrokerNode]:
    clock, metrics, store = SystemClock(), BrokerMetrics(), SessionStore(tmp_path)
    coordination = Coordination(
        CoordinatorLink("b", _NOWHERE, ""), store, BrokerRegistration(url="http://b"), clock, metrics
    )
    state = BrokerState("b", Limits(), random.Random(0))
    made = BrokerNode(
        BrokerSettings(data_dir=tmp_path), state, store, ClusterLink("b", _NOWHERE, ""), coordination, clock, metrics
    )
    yield made
    await made.stop()


async def test_a_mistake_ends_the_broker_wherever_it_was_made(node: BrokerNode) -> None:
    """Half a broker, without heartbeats or without ticks, is worse than one that starts again from its store."""
    running = asyncio.ensure_future(node.run())
    await asyncio.sleep(0)
    with pytest.raises(KeyError):
        node.happened(cast(Any, "what the machine has never heard of"))
    with pytest.raises(KeyError, match="str"):
        await asyncio.wait_for(running, 10)


async def test_nobody_to_talk_to_is_no_mistake(node: BrokerNode) -> None:
    running = asyncio.ensure_future(node.run())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(running), 0.5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
