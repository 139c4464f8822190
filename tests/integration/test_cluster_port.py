"""A broker's link to a real cluster keeps what clusters promise, as do those that stand in for it."""

from __future__ import annotations

import asyncio

import pytest

from integration.live import Live
from tocsin.broker.shell.cluster_link import ClusterLink
from tocsin.protocol.ports import ClusterPort
from tocsin.protocol.subscription_keys import SubscriptionKey
from tocsin.testing.cluster_conformance import CHECKS, REFUSALS, Check


class OverHttp:
    keys = tuple(SubscriptionKey.of("CpOf", {"k": k}, "") for k in range(3))

    def __init__(self, live: Live) -> None:
        self._live = live
        self._records = 0

    def link(self, broker: str) -> ClusterPort:
        return ClusterLink(broker, self._live.url, "")

    async def run(self) -> None:
        records = [{"id": self._records + k, "k": k} for k in range(len(self.keys))]
        self._records += len(records)
        await asyncio.to_thread(self._live.publish, "cp_records", records)


@pytest.fixture(scope="module")
def bench(live: Live) -> OverHttp:
    live.sql("""
        CREATE ACTIVE DATASET CpRecords (id INT, k INT, PRIMARY KEY (id));
        CREATE FEED cp_records INTO CpRecords FROM HTTP;
        CREATE CONTINUOUS CHANNEL CpOf (k INT) AS SELECT r.id FROM CpRecords r WHERE is_new(r) AND r.k = :k;
    """)
    return OverHttp(live)


@pytest.mark.parametrize("check", [*CHECKS, *REFUSALS])
async def test_the_link_keeps_what_clusters_promise(bench: OverHttp, check: Check) -> None:
    """Over HTTP, with Spark behind it."""
    await check(bench)
