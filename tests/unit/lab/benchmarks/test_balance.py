"""The networks that balancing is measured on, and the report."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tocsin.lab.benchmarks import balance
from tocsin.lab.benchmarks.balance_networks import communities, uniform, zipf

pytestmark = pytest.mark.shell

SMALL = {"subscribers": 300, "subscriptions": 100, "brokers": 4, "each": 5}


@pytest.mark.parametrize("network", [zipf, uniform, partial(communities, groups=10)])
def test_a_network_follows_from_its_seed(network: balance.NetworkMaker) -> None:
    """The same seed gives the same network, another seed another one; everybody holds something, each thing once."""
    here, there, other = network(1, **SMALL), network(1, **SMALL), network(2, **SMALL)
    for name in here.__dataclass_fields__:
        assert np.array_equal(getattr(here, name), getattr(there, name)), name
    assert not np.array_equal(here.rates, other.rates)
    assert 3 < len(here.holds) / 300 < 5.5
    for number in range(300):
        held = here.holds[here.offsets[number] : here.offsets[number + 1]]
        assert len(held) >= 1
        assert np.all(np.diff(held) > 0), "each once, in order"


def test_some_subscriptions_are_more_popular_and_circles_keep_to_themselves() -> None:
    counts = np.bincount(zipf(1, **SMALL).holds, minlength=100)
    assert counts[0] > 5 * counts[50:].mean()
    view = communities(1, **SMALL, groups=10, inside=1.0)
    for number in range(300):
        assert len(set(view.holds[view.offsets[number] : view.offsets[number + 1]] // 10)) == 1


def test_the_report_has_what_was_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each network has the quality of every policy, and the large one its times and memory."""
    networks = {name: partial(uniform, **SMALL) for name in ("zipf10", "communities10", "communities40")}
    monkeypatch.setattr(balance, "_NETWORKS", networks)
    monkeypatch.setattr(balance, "_PAPER", SMALL)
    monkeypatch.setattr(balance, "_SMALL_NETWORKS", 2)
    report = balance.run(seed=0, largest=1000)
    for name in networks:
        quality = report["quality"][name]
        assert all(quality[policy] >= 1 for policy in ("gsh", "ldm", "sdm", "sharing", "sharing_extra"))
        assert quality["sharing"] <= quality["gsh"] <= quality["before"]
    assert set(report["million"]) >= {"gsh_s", "sharing_s", "peak_rss_mb"}
    assert report["paper"]["sharing_s"] > 0
