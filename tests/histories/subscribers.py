"""Subscribers: devices that hold subscriptions, and programs that run there, one after the other.

What a device holds lasts from `subscribed` until it unsubscribes, over any number of programs; that is a *tenure*.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from histories.cluster_side import CHANNEL, FILTERS, key_for, severity_of
from histories.coordinator_side import url_of
from histories.wires import End, Wire
from tocsin.client.core import events as ev
from tocsin.client.core.failures import Replaced
from tocsin.client.core.options import SessionOptions
from tocsin.client.core.session import Session
from tocsin.errors import TocsinError, Unavailable
from tocsin.model.position import Position
from tocsin.protocol.messages import FromBroker
from tocsin.protocol.subscription_keys import SubscriptionKey

if TYPE_CHECKING:
    from histories.broker_side import BrokerSide
    from histories.world import World


@dataclass(slots=True)
class Life:
    """From `subscribed` on, as long as one program ran. `brought`: it brought its own position."""

    begin: Position
    brought: bool
    got: list[tuple[Position, int]] = field(default_factory=list)


@dataclass(slots=True)
class Wish:
    """A filter, and the number of records when it was first known to be in force."""

    where: str
    records: int | None = None


@dataclass(slots=True, eq=False)
class Tenure:
    device: Device
    topic: str
    wishes: list[Wish]
    lives: list[Life] = field(default_factory=list)
    #: The coordinator has it on disk: a program that brings no position may rely on that.
    is_reported: bool = False
    #: When it was first told `subscribed`, as the number of records there were.
    records_before: int = 0
    has_left: bool = False
    gaps: int = 0

    @property
    def key(self) -> SubscriptionKey:
        return key_for(self.topic, self.device.permission)

    @property
    def position(self) -> str:
        """Of what was handed out last."""
        for life in reversed(self.lives):
            return str(life.got[-1][0] if life.got else life.begin)
        return ""

    def __str__(self) -> str:
        return f"{self.device.name} {self.topic} {self.wishes}"

    @property
    def where(self) -> str:
        return self.wishes[-1].where

    def confirm(self, records: int) -> None:
        if self.wishes[-1].records is None:
            self.wishes[-1].records = records

    def _wishes_for(self, record: int) -> list[str]:
        """Those that may have decided on a record: all that were not certainly replaced when it was published."""
        following = [*self.wishes[1:], None]
        return [
            one.where
            for one, after in zip(self.wishes, following, strict=True)
            if after is None or after.records is None or record <= after.records
        ]

    def must_get(self, record: int) -> bool:
        return all(FILTERS[one](severity_of(record)) for one in self._wishes_for(record))

    def may_get(self, record: int) -> bool:
        return any(FILTERS[one](severity_of(record)) for one in self._wishes_for(record))

    def has(self, record: int) -> bool:
        return any(got == record for life in self.lives for _, got in life.got)


class Device:
    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self.user = f"user{number}"
        self.name = f"{self.user}/d"
        self.permission = "secret" if number == 1 else ""
        self.holds: list[Tenure] = []
        self.tenures: list[Tenure] = []
        self.program: Program | None = None

    def want(self, topic: str, where: str) -> Tenure | None:
        if any(one.topic == topic for one in self.holds):
            return None
        tenure = Tenure(self, topic, [Wish(where)])
        self.holds.append(tenure)
        self.tenures.append(tenure)
        return tenure

    def begin(
        self,
        rng: random.Random,
        at: BrokerSide | None = None,
        *,
        is_only_broker: bool = False,
        brings: bool | None = None,
        is_one_by_one: bool | None = None,
    ) -> None:
        """A new program asks for all that the device holds, together or, as one that waits for each answer,
        `is_one_by_one`. It may know a broker from before, or even nobody else, and `brings` its positions, as it has to
        if what it holds is not reported."""
        if self.program is None:
            if brings is None:
                brings = rng.random() < 0.2
            is_reported = all(one.is_reported for one in self.holds)
            brings = brings or not is_reported
            options = SessionOptions(
                device="d",
                token="t",
                brokers=() if at is None else (url_of(at.name),),
                has_coordinator=not is_only_broker,
            )
            if is_one_by_one is None:
                is_one_by_one = rng.random() < 0.3
            self.program = Program(self._world, self, options, brings=brings, is_one_by_one=is_one_by_one)
            self.program.tell(ev.Started())
            # A broker that takes a device over without knowing of something that was not reported leaves that to the
            # former one, which holds it for 30 s. Who may stay away for longer says at once what it holds.
            if rng.random() < 0.5 or not is_reported:
                self.program.ask_for_all()

    @property
    def is_settled(self) -> bool:
        """A program runs, and has been told `subscribed` of all that the device holds."""
        return self.program is not None and all(one in self.program.subscribed for one in self.holds)

    def note_reported(self) -> None:
        """What the coordinator has on disk as of the broker where the device is."""
        program = self.program
        if (
            program is not None
            and self.is_settled
            and not program.changing
            and self._world.coordinator.has_on_disk(
                self.name, program.broker, {one.key: (one.where, one.lives[-1].begin.epoch) for one in self.holds}
            )
        ):
            for one in self.holds:
                one.is_reported = True


class Program:
    """One life of a device: the client's session machine, and what a driver does for it."""

    def __init__(
        self, world: World, device: Device, options: SessionOptions, *, brings: bool, is_one_by_one: bool
    ) -> None:
        self._world = world
        self.device = device
        self._brings = brings
        self._is_one_by_one = is_one_by_one
        self._session = Session(options, world.rng.random)
        self._requests = 0
        self._tenures: dict[int, Tenure] = {}
        self._to_ask = deque(device.holds)
        #: It asks for what was kept as the broker says it was, filter and all.
        self._believes_kept = not brings and world.rng.random() < 0.5
        #: Those for which it has asked for another filter, and was not answered.
        self.changing: set[Tenure] = set()
        #: Those that it has been told `subscribed` of.
        self.subscribed: set[Tenure] = set()
        #: Those that it has unsubscribed from.
        self._given_up: list[Tenure] = []
        self.broker = ""
        self._opening: dict[int, str] = {}
        self.wires: dict[int, Wire] = {}
        self._placement: ev.RequestPlacement | None = None
        self._placing_life = 0
        self.inbox: deque[ev.Deliver | ev.TellGap] = deque()
        self._handed: dict[int, Position] = {}
        self.is_dead = False

    # What the application does

    def ask_for_all(self) -> None:
        """That the device holds: before there is a connection, or as soon as there is one."""
        while self._to_ask and not (self._is_one_by_one and self._waits):
            tenure = self._to_ask.popleft()
            self._subscribe(tenure, tenure.position if self._brings else "")

    @property
    def _waits(self) -> bool:
        return any(one not in self.subscribed for one in self._tenures.values())

    def subscribe(self, topic: str, where: str) -> None:
        if (tenure := self.device.want(topic, where)) is not None:
            self._subscribe(tenure, "")

    def change_filter(self, tenure: Tenure, where: str) -> None:
        if tenure in self.subscribed and tenure not in self.changing and tenure.where != where:
            tenure.wishes.append(Wish(where))
            tenure.is_reported = False
            self.changing.add(tenure)
            request = next(one for one, held in self._tenures.items() if held is tenure)
            self.tell(ev.FilterAsked(request, where))

    def unsubscribe(self, tenure: Tenure) -> None:
        if tenure not in self.subscribed:
            return
        self.device.holds.remove(tenure)
        tenure.has_left = True
        self.changing.discard(tenure)
        self._given_up.append(tenure)
        request = next(one for one, held in self._tenures.items() if held is tenure)
        del self._tenures[request]
        self.inbox = deque(one for one in self.inbox if one.request != request)
        self.tell(ev.UnsubscribeAsked(request))

    def kept_for_nothing(self) -> list[Tenure]:
        """What it has unsubscribed from, and a broker where it is keeps all the same."""
        holds = {one.key for one in self.device.holds}
        kept = {key for wire in self.wires.values() for key in wire.broker.kept_for(self.device.name)} - holds
        return [one for one in self._given_up if one.key in kept]

    def take(self) -> None:
        """The application is handed the next notification."""
        if not self.inbox:
            return
        item = self.inbox.popleft()
        tenure = self._tenures.get(item.request)
        if tenure is None:
            return
        if isinstance(item, ev.TellGap):
            tenure.gaps += 1
            return
        tenure.lives[-1].got.append((item.position, self._world.record_at(item.position)))
        self._handed[item.request] = item.position

    def acknowledge(self) -> None:
        for request, position in self._handed.items():
            self.tell(ev.Acknowledged(request, position))
        self._handed.clear()

    def die(self) -> None:
        """Killed: nothing is said to anybody, and what was not handed out is gone."""
        self.is_dead = True
        self.device.program = None
        for wire in self.wires.values():
            wire.die_at_client()

    def leave(self) -> None:
        self.tell(ev.CloseAsked())
        self.is_dead = True
        self.device.program = None

    # What happens to it

    def go_on(self) -> None:
        """An attempt to connect, or to be placed, comes to something."""
        world = self._world
        if self._opening:
            link, url = self._opening.popitem()
            broker = next(one for one in world.brokers if url.endswith(one.name))
            if broker.is_up:
                wire = world.connect(link, self, broker)
                self.wires[link] = wire
                self.tell(ev.Opened(link))
            else:
                self.tell(ev.Closed(link, 0, "refused"))
        elif self._placement is not None:
            asked, self._placement = self._placement, None
            if not world.coordinator.is_up:
                self.tell(ev.PlacementFailed("down"))
                return
            placed = world.coordinator.place(self.device.user, "d", asked.avoid, world.now_s)
            if placed is None:
                self.tell(ev.PlacementFailed("nobody", Unavailable("nobody", retry_after_s=1)))
            else:
                self.tell(ev.Placed(*placed))

    def received(self, wire: Wire, message: FromBroker | End) -> None:
        if self.is_dead or self.wires.get(wire.link) is not wire:
            return
        if isinstance(message, End):
            del self.wires[wire.link]
            # Ours to close too; the broker may have noticed long ago.
            self.tell(ev.Closed(wire.link, message.code))
        else:
            self.tell(ev.Received(wire.link, message))

    def tick(self) -> None:
        wake_s = self._session.wake_at_s()
        if wake_s is not None and wake_s <= self._world.now_s:
            self.tell(ev.TimePassed())

    def tell(self, event: ev.Event) -> None:
        if self.is_dead:
            return
        for instruction in self._session.handle(event, self._world.now_s):
            self._perform(instruction)
        if self.broker and self._to_ask:
            self.ask_for_all()

    def _perform(self, instruction: ev.Instruction) -> None:
        match instruction:
            case ev.Connect(link, url):
                self._opening[link] = url
            case ev.Send(link, message):
                if (wire := self.wires.get(link)) is not None:
                    wire.to_broker.append(message)
            case ev.Disconnect(link):
                self._opening.pop(link, None)
                if (wire := self.wires.pop(link, None)) is not None:
                    wire.closed_by_client()
            case ev.RequestPlacement():
                self._placement = instruction
            case ev.Deliver() | ev.TellGap():
                self.inbox.append(instruction)
            case ev.TellSubscribed(request, position):
                self._subscribed(request, position)
            case ev.TellConnected(_, _, broker):
                self.broker = broker
            case ev.TellRefused() | ev.Fail():
                self._failed(instruction)
            case ev.TellFiltered(request, error):
                self._filtered(request, error)
            case ev.TellUnsubscribed() | ev.RenewToken():
                pass

    def _failed(self, instruction: ev.TellRefused | ev.Fail) -> None:
        if isinstance(instruction, ev.TellRefused):
            self._world.note(f"{self._tenures.get(instruction.request)} was refused: {instruction.error}")
            return
        if not isinstance(instruction.error, Replaced):
            self._world.note(f"{self.device.name} failed: {instruction.error}")
        self.die()

    def _filtered(self, request: int, error: TocsinError | None) -> None:
        if (tenure := self._tenures.get(request)) is not None:
            self.changing.discard(tenure)
            tenure.confirm(len(self._world.cluster.records))
            if error is not None:
                self._world.note(f"the filter of {tenure} was refused: {error}")

    def _subscribed(self, request: int, position: Position) -> None:
        tenure = self._tenures.get(request)
        if tenure is None:
            return
        if not tenure.lives:
            tenure.records_before = len(self._world.cluster.records)
        tenure.confirm(len(self._world.cluster.records))
        tenure.lives.append(Life(position, self._brings and bool(tenure.lives)))
        self.subscribed.add(tenure)

    def _subscribe(self, tenure: Tenure, position: str) -> None:
        self._requests += 1
        self._tenures[self._requests] = tenure
        where = tenure.where
        if self._believes_kept and tenure.is_reported:
            kept = (one.where for one in self._session.kept() if one.parameters == {"topic": tenure.topic})
            said = next(kept, where)
            # A broker that can't ask the coordinator may say an earlier one: who has changed it says so again.
            where = where if said in [one.where for one in tenure.wishes[:-1]] else said
        self.tell(ev.SubscribeAsked(self._requests, CHANNEL, {"topic": tenure.topic}, position, where))
