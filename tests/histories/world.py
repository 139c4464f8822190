"""One world: a cluster, a coordinator, brokers and devices, and everything that may happen to them, in any order."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import msgspec

from histories.broker_side import BrokerSide
from histories.cluster_side import CHANNEL, FILTERS, QUIET_TOPICS, TOPICS, ClusterSide, Results
from histories.coordinator_side import CoordinatorSide
from histories.subscribers import Device, Program, Tenure
from histories.wires import Wire
from tocsin.model.position import Position
from tocsin.protocol.messages import Notification

#: Rounds of calm within which everybody must have got everything: retries pause for 10 s at most, what lingers does so
#: for 30 s, and a round is half a second.
_MAX_ROUNDS = 400
#: What a broker has lost to another it holds for 30 s more. Who can't take it over within that time, since the cluster
#: or the coordinator is away, may find its history ended, and is told so; that is not looked for here.
_LONGEST_OUTAGE_S = 10.0
_RAW = msgspec.Raw(b"{}")

#: What things come to by themselves, and how often in relation to one another.
PROGRESS: Mapping[str, int] = {
    "carry": 100,
    "go_on": 80,
    "program_goes_on": 40,
    "take": 20,
    "acknowledge": 8,
    "tick": 20,
    "wait": 2,
    "commit": 25,
    "begin_run": 10,
    "finish_run": 10,
    "look": 25,
    "flush": 4,
}
#: What somebody does, or what befalls them.
EVENTS: Mapping[str, int] = {
    "publish": 16,
    "begin": 16,
    "subscribe": 5,
    "unsubscribe": 1,
    "change_filter": 3,
    "die": 6,
    "leave": 3,
    "cut": 4,
    "congest": 1,
    "kill_broker": 6,
    "start_broker": 16,
    "kill_cluster": 2,
    "start_cluster": 8,
    "kill_coordinator": 2,
    "start_coordinator": 6,
}


class World:
    def __init__(
        self, rng: random.Random, results: Results, *, brokers: int, devices: int, cache_max_bytes: int = 2_000
    ) -> None:
        self.rng = rng
        self.now_s = 0.0
        self.is_calm = False
        self.cache_max_bytes = cache_max_bytes
        self.cluster = ClusterSide(rng, results)
        self.coordinator = CoordinatorSide(rng)
        self.wires: list[Wire] = []
        self._connections = 0
        self.brokers = [BrokerSide(self, f"b{number}") for number in range(brokers)]
        self.devices = [Device(self, number) for number in range(devices)]
        self._ready_at_s: dict[ClusterSide | CoordinatorSide, float] = {self.cluster: 0.0, self.coordinator: 0.0}
        #: What must not happen, and has.
        self.noticed: list[str] = []
        #: Topic → the records after all others.
        self.last_records: dict[str, list[int]] = {}

    # What can happen

    def step(self, what: str) -> None:
        getattr(self, what)()

    def carry(self) -> None:
        """Some messages arrive, at one end of a connection."""
        if self.wires:
            wire = self.rng.choice(self.wires)
            carry = wire.carry_to_broker if self.rng.random() < 0.5 else wire.carry_to_client
            for _ in range(self._some()):
                carry()
            self._prune(wire)

    def go_on(self) -> None:
        """Some of a broker's calls come a step further."""
        broker = self.rng.choice(self.brokers)
        for _ in range(self._some()):
            if broker.is_up:
                broker.go_on()

    def program_goes_on(self) -> None:
        self._with_program(lambda one: one.go_on())

    def take(self) -> None:
        self._with_program(lambda one: one.take())

    def acknowledge(self) -> None:
        self._with_program(lambda one: one.acknowledge())

    def tick(self) -> None:
        self.pass_time(0.1)

    def wait(self) -> None:
        """For some seconds, in which calls are answered by those who are up."""
        for _ in range(self.rng.choice((4, 12))):
            self.pass_time(0.5)
            for _ in range(3):
                for broker in self.brokers:
                    broker.go_on_with_all()
                self.commit()

    def stay_away(self) -> None:
        """For longer than brokers hold what they have lost to another, and longer than any outage lasts."""
        for _ in range(20):
            self.pass_time(2.0)
            for _ in range(4):
                for broker in self.brokers:
                    broker.go_on_with_all()
                self.commit()

    def attend(self, device: Device, *, is_reporting: bool = True) -> None:
        """Whatever concerns a device comes a good step further; the coordinator may be slow at it."""
        self.pass_time(0.2)
        if device.program is not None:
            device.program.go_on()
        for wire in [one for one in self.wires if one.program.device is device]:
            wire.carry_all()
            self._prune(wire)
        for _ in range(3):
            for broker in self.brokers:
                broker.go_on_with_all()
            if is_reporting:
                self.commit()

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self._end_long_outages()
        self.coordinator.tick(self.now_s)
        for broker in self.brokers:
            broker.tick()
        for device in self.devices:
            if device.program is not None:
                device.program.tick()

    def commit(self) -> None:
        if self.coordinator.is_up:
            self.coordinator.commit()

    def publish(self) -> None:
        self.cluster.publish(self.rng.choice(TOPICS))

    def begin_run(self) -> None:
        if self.cluster.is_ready:
            self.cluster.begin_run()

    def finish_run(self) -> None:
        if self.cluster.is_ready:
            self.cluster.finish_run()

    def begin(self) -> None:
        self.rng.choice(self.devices).begin(self.rng)

    def subscribe(self) -> None:
        topic = self.rng.choice(TOPICS)
        self._with_program(lambda one: one.subscribe(topic, self.some_filter()))

    def change_filter(self) -> None:
        def change_one(program: Program) -> None:
            if program.device.holds:
                program.change_filter(self.rng.choice(program.device.holds), self.some_filter())

        self._with_program(change_one)

    def unsubscribe(self) -> None:
        def leave_one(program: Program) -> None:
            if program.device.holds:
                program.unsubscribe(self.rng.choice(program.device.holds))

        self._with_program(leave_one)

    def look(self) -> None:
        for device in self.devices:
            device.note_reported()

    def die(self) -> None:
        self._with_program(lambda one: one.die())

    def leave(self) -> None:
        self._with_program(lambda one: one.leave())

    def cut(self) -> None:
        if self.wires:
            self.rng.choice(self.wires).cut()

    def congest(self) -> None:
        self._with_wire(lambda wire: wire.broker.congest(wire))

    def flush(self) -> None:
        self._with_wire(lambda wire: wire.broker.flush(wire))

    def kill_broker(self) -> None:
        """Mostly one where somebody is."""
        program = self.rng.choice(self.devices).program
        where = [wire.broker for wire in program.wires.values()] if program is not None else []
        broker = self.rng.choice(where or self.brokers)
        if broker.is_up:
            broker.kill()

    def start_broker(self) -> None:
        self.start_broker_again(self.rng.choice(self.brokers))

    def start_broker_again(self, broker: BrokerSide) -> None:
        if not broker.is_up:
            broker.start()

    def kill_cluster(self) -> None:
        self.cluster.kill()

    def start_cluster(self) -> None:
        self.cluster.start()

    def kill_coordinator(self) -> None:
        if self.coordinator.is_up:
            self.coordinator.kill()

    def start_coordinator(self) -> None:
        self.coordinator.start(self.now_s)

    # The beginning and the end

    def warm_up(self) -> None:
        """Everybody is there, and most have subscribed to something, before anything goes wrong."""
        self.is_calm = True
        for _ in range(4):
            self._round()
        for device in self.devices:
            for topic in self.rng.sample(TOPICS, self.rng.randint(0, 2)):
                assert device.program is not None
                device.program.subscribe(topic, self.some_filter())
        for _ in range(self.rng.randint(0, 12)):
            self._round()
        self.is_calm = False

    def settle(self) -> bool:
        """Let everybody come back, publish once more for all, and wait; whether all came, and got that, in time."""
        self.is_calm = True
        for broker in self.brokers:
            broker.are_claims_slow = False
        if not self._rounds_until(lambda: all(one.is_settled for one in self.devices)):
            return False
        # As many as are needed for each filter to match one.
        self.last_records = {
            topic: [self.cluster.publish(topic) for _ in range(5)] for topic in (*TOPICS, *QUIET_TOPICS)
        }
        if not self._rounds_until(lambda: not self.missing()):
            return False
        self._rounds_until(lambda: not self.kept_for_nothing(), at_most=_MAX_ROUNDS // 10)
        return True

    def some_filter(self) -> str:
        """Mostly none."""
        return self.rng.choice(("", "", *FILTERS))

    def kept_for_nothing(self) -> list[Tenure]:
        """What programs that still run have unsubscribed from, and brokers keep."""
        return [one for device in self.devices if device.program for one in device.program.kept_for_nothing()]

    def missing(self) -> list[Tenure]:
        """Those that lack one of their topic's last records, or were not told of their last filter."""
        tenures = [one for device in self.devices for one in device.holds]
        return [
            one
            for one in tenures
            if one.wishes[-1].records is None
            or any(one.must_get(record) and not one.has(record) for record in self.last_records.get(one.topic, ()))
        ]

    def _rounds_until(self, condition: Callable[[], bool], at_most: int = _MAX_ROUNDS) -> bool:
        for _ in range(at_most):
            self._round()
            if condition():
                return True
        return False

    def _round(self) -> None:
        self.cluster.start()
        self.coordinator.start(self.now_s)
        self.begin_run()
        self.finish_run()
        for broker in self.brokers:
            if not broker.is_up:
                broker.start()
            broker.go_on_with_all()
        self.commit()
        self.pass_time(0.5)
        for device in self.devices:
            device.begin(self.rng)
            assert device.program is not None
            device.program.go_on()
        for wire in list(self.wires):
            wire.carry_all()
            if wire.number in wire.broker.wires:
                wire.broker.flush(wire)
            self._prune(wire)
        for device in self.devices:
            program = device.program
            while program is not None and program.inbox:
                program.take()
            if program is not None:
                program.acknowledge()

    # For the parts

    def connect(self, link: int, program: Program, broker: BrokerSide) -> Wire:
        self._connections += 1
        wire = Wire(self._connections, link, program, broker, self.rng)
        self.wires.append(wire)
        broker.opened(wire)
        return wire

    def notification(self, wire: bytes) -> Notification:
        position = wire.decode()
        return Notification(int(position.partition("-")[0]), CHANNEL, position, 0, _RAW)

    def record_at(self, position: Position) -> int:
        """The record that the result at `position` is of; 0 if there is no such result."""
        return self.cluster.results.record_at(position)

    def note(self, what: str) -> None:
        self.noticed.append(what)

    # Parts

    def _end_long_outages(self) -> None:
        for side, start in ((self.cluster, self.start_cluster), (self.coordinator, self.start_coordinator)):
            if side.is_ready:
                self._ready_at_s[side] = self.now_s
            elif self.now_s - self._ready_at_s[side] > _LONGEST_OUTAGE_S:
                start()

    def _some(self) -> int:
        return self.rng.choice((1, 1, 3, 12))

    def _with_program(self, act: Callable[[Program], None]) -> None:
        program = self.rng.choice(self.devices).program
        if program is not None:
            act(program)

    def _with_wire(self, act: Callable[[Wire], None]) -> None:
        if self.wires:
            wire = self.rng.choice(self.wires)
            if wire.number in wire.broker.wires:
                act(wire)

    def _prune(self, wire: Wire) -> None:
        program = wire.program
        is_of_program = not program.is_dead and program.wires.get(wire.link) is wire
        if not is_of_program and wire.number not in wire.broker.wires and wire in self.wires:
            self.wires.remove(wire)
