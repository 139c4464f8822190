"""The whole network: runs repeat, both ways of counting agree, nobody is lost."""

from __future__ import annotations

import msgspec
import pytest

from tocsin.errors import InvalidValue
from tocsin.simulator.reading import parse
from tocsin.simulator.timeline import Run
from tocsin.simulator.world import World, simulate
from unit.simulator.scenarios import BUSY, SMALL, busy, small


@pytest.fixture(scope="module")
def eventful() -> Run:
    return simulate(busy(), seed=5)


def test_the_same_seed_gives_an_equal_run(eventful: Run) -> None:
    assert simulate(busy(), seed=5) == eventful
    assert simulate(busy(), seed=6) != eventful


@pytest.mark.parametrize("seed", [5, 8])
def test_summed_and_single_deliveries_are_the_same(seed: int) -> None:
    """To the byte, for every broker and every ten seconds, with people coming, going, being moved, brokers dying."""
    summed, single = simulate(busy(), seed=seed), simulate(busy(), seed=seed, mode="single")
    assert summed.totals.deliveries > 5_000
    assert summed.totals.migrations > 50
    assert summed.totals.failures == 2
    assert summed.totals.unsubscribes > 200
    for one, other in zip(summed.samples, single.samples, strict=True):
        assert one == other
    assert summed == single


@pytest.mark.parametrize("seed", [2, 7, 12])
def test_slow_calls_and_broken_neighbours_change_nothing_about_that(seed: int) -> None:
    """Reports, acquisitions and hellos overtake each other; brokers die again and again; people who move exchange
    subscriptions before the other broker has answered."""
    changes = {
        "duration_s": "110",
        "subscribers.count": "50",
        "network.subscriber_delay_s": "0.5",
        "network.cluster_delay_s": "1.5",
        "network.coordinator_delay_s": "1",
        "subscribers.mean_online_s": "10",
        "subscribers.mean_offline_s": "1",
        "subscribers.changes_per_hour": "1000",
        "balancing.every_s": "2",
        "balancing.settle_s": "0",
        "balancing.rest_s": "0",
        "failures": "["
        '{ broker = "broker-1", at_s = 30, back_after_s = 4 }, { broker = "broker-1", at_s = 50, back_after_s = 20 },'
        '{ broker = "broker-2", at_s = 52, back_after_s = 1 }, { broker = "broker-4", at_s = 90 }]',
    }
    scenario = parse(SMALL, "slow.toml", {**BUSY, **changes})
    assert simulate(scenario, seed=seed) == simulate(scenario, seed=seed, mode="single")


def test_the_order_of_lists_means_nothing() -> None:
    """Brokers, channels, crowds and failures in another order give an equal run."""
    brokers = [f'[[brokers]]\nname = "{name}"\nlocation = [{x}, 0]\n' for name, x in (("b", 1), ("a", 2), ("c", 9000))]
    rate = "rate = { mean_bytes_per_s = 100, std_bytes_per_s = 30, noise = 0.2 }"
    channels = [f'[[channels]]\nname = "{name}"\nperiod_s = 7\nsubscriptions = 20\n{rate}\n' for name in ("y", "x")]
    crowds = ["{ location = [1, 5], spread_m = 9, share = 0.2 }", "{ location = [8000, 5], spread_m = 9, share = 0.5 }"]
    failures = [
        f'[[failures]]\nbroker = "{name}"\nat_s = {at}\nback_after_s = 9\n' for name, at in (("b", 50), ("a", 90))
    ]
    people = "[balancing]\nmigration = ''\nshuffle = ''\n[subscribers]\ncount = 50\nsubscriptions = [1, 4]\ncrowds = "

    def run(step: int) -> Run:
        text = "".join(brokers[::step] + channels[::step] + failures[::step])
        return simulate(
            parse(f'name = "n"\nduration_s = 150\n{text}{people}[{", ".join(crowds[::step])}]\n', "orders.toml")
        )

    assert run(1) == run(-1)


def test_everybody_is_served_from_when_they_have_subscribed() -> None:
    world = World(small(), 1)
    world.run(lambda _: None)
    run = world.result()
    assert sum(run.samples[-1].subscribers) == 150
    assert run.totals.subscribes == run.totals.frontend_subscriptions == len(world.workload.holds)
    assert run.totals.logins == run.totals.placements == 150
    assert run.totals.migrations == run.totals.plans == 0
    for subscriber in range(150):
        first, last = world.workload.offsets[subscriber : subscriber + 2]
        assert world.clients.held_by(subscriber) == world.workload.holds[first:last].tolist()


def test_counted_bytes_come_to_the_modelled_load() -> None:
    """Once everybody has subscribed and nothing fluctuates, what is counted is what the model says."""
    run = simulate(small(duration_s="800", sample_every_s="200", balancing__rates_window_s="200"))
    last = run.samples[-1]
    for load, in_bytes, out_bytes in zip(last.loads_bytes_per_s, last.in_bytes, last.out_bytes, strict=True):
        assert (in_bytes + out_bytes) / 200 == pytest.approx(load, rel=0.1)


def test_moves_take_everybody_where_the_plan_said_and_lose_nothing() -> None:
    scenario = small(
        balancing__shuffle="gsh",
        balancing__rule="plain",
        balancing__begins_at_s="100",
        balancing__shuffle_hits="1",
        balancing__settle_s="1000",
        balancing__gamma="0.3",
    )
    world, still = World(scenario, 1, "single"), World(small(), 1, "single")
    moved: dict[str, str] = {}
    world.coordination.on_plan = lambda plan: moved.update({one.subscriber: one.destination for one in plan.moves()})
    for one in (world, still):
        one.run(lambda _: None)
    assert len(moved) > 30
    assert world.result().totals.migrations == len(moved)
    for subscriber in range(150):
        at = world.nodes[world.clients.broker_of(subscriber)].name
        expected = still.nodes[still.clients.broker_of(subscriber)].name
        assert at == moved.get(f"s{subscriber:07d}/d", expected)
        assert world.clients.held_by(subscriber) == still.clients.held_by(subscriber)
    assert world.clients.notifications == still.clients.notifications, "each result once, moved or not"
    assert world.deliveries.counts.sum() >= still.deliveries.counts.sum(), "both brokers send while somebody moves"
    plan = world.result().plans[0]
    assert (plan.stage, plan.policy, plan.moves) == ("shuffle", "gsh", len(moved))
    assert plan.cov_after < plan.cov_before
    assert plan.gap >= 1
    assert world.result().samples[-1].cov < still.result().samples[-1].cov


@pytest.mark.parametrize("back", ["", ", back_after_s = 40"])
def test_who_loses_a_broker_is_placed_elsewhere_and_misses_nothing(back: str) -> None:
    failing = small(failures=f'[{{ broker = "broker-1", at_s = 100{back} }}]')
    run, calm = simulate(failing), simulate(small())
    before, after, last = (run.samples[at] for at in (8, 11, -1))
    assert before.subscribers[0] > 30
    assert after.subscribers[0] == 0
    assert after.alive == (False, True, True, True)
    assert after.loads_bytes_per_s[0] == 0.0
    assert sum(after.subscribers) == sum(last.subscribers) == 150
    assert run.totals.deliveries == calm.totals.deliveries
    assert last.alive[0] is bool(back)


def test_who_is_away_gets_what_was_missed() -> None:
    """In the end everybody has had everything, but for those who are away at that moment."""
    away = small(subscribers__mean_online_s="40", subscribers__mean_offline_s="2", duration_s="300")
    run, calm = simulate(away), simulate(small(duration_s="300"))
    assert run.totals.logouts > 500
    assert run.totals.deliveries == pytest.approx(calm.totals.deliveries, rel=0.03)


def test_a_wrong_scenario_is_refused_however_it_was_made() -> None:
    scenario = small()
    wrong = msgspec.structs.replace(scenario, balancing=msgspec.structs.replace(scenario.balancing, placement="far"))
    with pytest.raises(InvalidValue, match=r"^balancing.placement is not a placement policy"):
        simulate(wrong)


def test_progress_is_told_up_to_the_end() -> None:
    shares: list[float] = []
    simulate(small(duration_s="50"), progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
