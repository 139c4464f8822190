"""Plots: things that happen to one device one after the other, and that chance alone would hardly bring together.

Each is a generator that stops where the rest of the world goes on; other events come in between. What it asks for may
be impossible at that time: then nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from histories.cluster_side import QUIET_TOPICS

if TYPE_CHECKING:
    from histories.broker_side import BrokerSide
    from histories.subscribers import Device
    from histories.world import World

Plot = Callable[["World", "Device"], Iterator[None]]

#: Waits within which a device is served by another broker, if there is one and it can be reached.
_WAITS = 8


def back_at_an_old_copy(world: World, device: Device) -> Iterator[None]:
    """Its broker is down while another carries it on, with something more. When it is up again, from its store, a new
    program of the device comes there, without positions, before the broker can have heard of that."""
    rng, old = world.rng, _where(world, device)
    if old is None:
        return
    old.kill()
    yield from _served(world, device, lambda broker: broker is not old)
    if device.program is not None:
        shared = sorted({one.topic for other in world.devices for one in other.holds})
        _subscribe_to_more(device, rng.sample(shared, len(shared)))
        yield from _reported(world, device)
    yield from _gone_with_results_in_between(world, device)
    is_coordinator_away = rng.random() < 0.7
    if is_coordinator_away:
        world.kill_coordinator()
    world.start_broker_again(old)
    old.go_on_until_started()
    device.begin(rng, old, is_only_broker=not is_coordinator_away or rng.random() < 0.5, brings=False)
    for _ in range(3):
        world.attend(device)
        if rng.random() < 0.5:
            yield
    world.start_coordinator()


def moves_while_the_cluster_is_away(world: World, device: Device) -> Iterator[None]:
    """It has something more that nobody has reported yet. With that it comes to another broker while the cluster takes
    nothing on, leaves before that has answered, and stays away for so long that the first broker lets go of it."""
    rng, old = world.rng, _where(world, device)
    if old is None or device.program is None:
        return
    yield from _reported(world, device)
    _subscribe_to_more(device, rng.sample(QUIET_TOPICS, 2))
    for _ in range(_WAITS):
        world.attend(device, is_reporting=False)
        if device.is_settled:
            break
    if rng.random() < 0.5:
        old.kill()
    _goes(world, device)
    _results_for(world, device)
    world.kill_cluster()
    if rng.random() < 0.5:
        world.start_cluster()  # It answers pulls, and is not ready for anything else.
    others = [one for one in world.brokers if one is not old and one.state.is_started]
    device.begin(rng, rng.choice(others or world.brokers), is_only_broker=True, brings=True)
    for _ in range(rng.choice((1, 2, 5))):
        world.attend(device)
    if rng.random() < 0.5:
        yield
    _goes(world, device)
    if rng.random() < 0.5:
        yield
    world.start_broker_again(old)
    world.stay_away()
    device.begin(rng)
    yield


def moves_amid_results(world: World, device: Device) -> Iterator[None]:
    """It goes on at another broker while results come in all the time."""
    rng = world.rng
    _goes(world, device)
    yield
    device.begin(rng, rng.choice(world.brokers), is_only_broker=True)
    for _ in range(10):
        _results_for(world, device)
        for _ in range(rng.choice((1, 3))):
            world.go_on()
        world.program_goes_on()
        for wire in [one for one in world.wires if one.program is device.program]:
            wire.carry_all()
        if rng.random() < 0.2:
            yield


def passes_by(world: World, device: Device) -> Iterator[None]:
    """It looks in at another broker for a moment, maybe without asking for anything, and comes back some time later."""
    rng = world.rng
    yield from _gone_with_results_in_between(world, device)
    device.begin(rng, rng.choice(world.brokers), is_only_broker=True)
    for _ in range(rng.choice((1, 2, 4))):
        world.attend(device)
    yield
    _goes(world, device)
    yield
    _results_for(world, device)
    device.begin(rng)
    yield


def claimed_late(world: World, device: Device) -> Iterator[None]:
    """It looks in at another broker, maybe while it holds nothing, and the claim takes long to arrive. It goes back and
    asks for something more there. Then the claim arrives, and a new program, without positions, comes to whoever has
    it, maybe after a long time."""
    rng, old = world.rng, _where(world, device)
    others = [one for one in world.brokers if one is not old and one.state.is_started]
    if old is None or not others or device.program is None:
        return
    if rng.random() < 0.5:
        for one in list(device.holds):
            device.program.unsubscribe(one)
    yield from _reported(world, device)
    other = rng.choice(others)
    other.are_claims_slow = True
    _goes(world, device)
    device.begin(rng, other, is_only_broker=True)
    yield from _served(world, device, lambda broker: broker is other)
    world.attend(device)
    _goes(world, device)
    device.begin(rng, old, is_only_broker=True, brings=True)
    yield from _served(world, device, lambda broker: broker is old)
    _subscribe_to_more(device, rng.sample(QUIET_TOPICS, 2))
    yield from _reported(world, device)
    yield from _gone_with_results_in_between(world, device)
    other.are_claims_slow = False
    for _ in range(rng.choice((1, 2, 4))):
        world.attend(device)
    yield
    if rng.random() < 0.5:
        world.stay_away()
    device.begin(rng, brings=False)
    yield


def cut_off_half_way(world: World, device: Device) -> Iterator[None]:
    """A program without positions has been welcomed, and has asked for the first of its subscriptions, when its broker
    dies. The coordinator names another, and dies too. There the program brings what the welcome told it of that first
    one, and asks for the others."""
    rng = world.rng
    if _where(world, device) is None:
        return
    shared = sorted({one.topic for other in world.devices for one in other.holds})
    for _ in range(2):
        _subscribe_to_more(device, rng.sample(shared, len(shared)))
    yield from _reported(world, device)
    yield from _gone_with_results_in_between(world, device)
    device.begin(rng, brings=False, is_one_by_one=True)
    for _ in range(_WAITS):
        world.attend(device)
        if device.program is None or device.program.broker:
            break
    first = _where(world, device)
    if first is None or device.program is None:
        return
    first.kill()
    for _ in range(_WAITS):
        world.pass_time(0.2)
        for wire in list(device.program.wires.values()):
            wire.carry_all()
        if any(wire.broker is not first for wire in device.program.wires.values()):
            break
        device.program.go_on()
    world.kill_coordinator()
    for _ in range(3):
        world.attend(device)
        if rng.random() < 0.3:
            yield
    world.start_coordinator()
    world.start_broker_again(first)
    yield


def gives_up_while_the_coordinator_is_away(world: World, device: Device) -> Iterator[None]:
    """It unsubscribes from something that the coordinator knows of, and the coordinator can't be told. Its broker
    confirms that, and dies. The program goes on at another, which hears from the coordinator what there was."""
    rng = world.rng
    yield from _served(world, device, lambda _: True)
    yield from _reported(world, device)
    old = _where(world, device)
    if old is None or device.program is None or not device.holds:
        return
    world.kill_coordinator()
    given_up = rng.choice(device.holds)
    device.program.unsubscribe(given_up)
    for _ in range(2):
        world.attend(device)
    if rng.random() < 0.3:
        _subscribe_to_more(device, [given_up.topic])
    old.kill()
    if rng.random() < 0.5:
        yield
    if rng.random() < 0.7:
        world.start_coordinator()
    yield from _served(world, device, lambda broker: broker is not old)
    world.start_coordinator()


PLOTS: tuple[Plot, ...] = (
    back_at_an_old_copy,
    back_at_an_old_copy,
    moves_while_the_cluster_is_away,
    moves_while_the_cluster_is_away,
    moves_amid_results,
    passes_by,
    claimed_late,
    cut_off_half_way,
    gives_up_while_the_coordinator_is_away,
)


def _where(world: World, device: Device) -> BrokerSide | None:
    """The broker that serves it, if there is another to go to."""
    program = device.program
    if program is None or len(world.brokers) == 1:
        return None
    return next((wire.broker for wire in program.wires.values() if wire.broker.is_up), None)


def _subscribe_to_more(device: Device, topics: Sequence[str]) -> None:
    """To the first of these that it does not hold."""
    held = {one.topic for one in device.holds}
    rest = [one for one in topics if one not in held]
    if rest and device.program is not None:
        device.program.subscribe(rest[0], "")


def _served(world: World, device: Device, at: Callable[[BrokerSide], bool]) -> Iterator[None]:
    for turn in range(_WAITS):
        world.attend(device)
        broker = _where(world, device)
        if broker is not None and at(broker) and device.is_settled:
            break
        if turn % 4 == 3:
            yield


def _reported(world: World, device: Device) -> Iterator[None]:
    """A program that brings no positions can rely on what it holds now."""
    for turn in range(_WAITS):
        world.attend(device)
        device.note_reported()
        if device.is_settled and all(one.is_reported for one in device.holds):
            break
        if turn % 4 == 3:
            yield


def _gone_with_results_in_between(world: World, device: Device) -> Iterator[None]:
    _goes(world, device)
    _results_for(world, device)
    yield


def _goes(world: World, device: Device) -> None:
    if device.program is not None:
        world.rng.choice((device.program.die, device.program.leave))()


def _results_for(world: World, device: Device) -> None:
    for one in device.holds:
        world.cluster.publish(one.topic)
    world.begin_run()
    world.finish_run()
