"""Any interleaving of losses, resumes, repeats and moves: the application sees each result once and in order.

A world of brokers that share a cluster, in memory. Messages on each link keep their order; everything else happens
in any order that Hypothesis thinks of.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tocsin.client.core import events as ev
from tocsin.client.core.options import SessionOptions
from tocsin.client.core.session import Session
from tocsin.model.position import Position
from tocsin.protocol import messages

CHANNELS = st.sampled_from(["A", "B"])
PICK = st.integers(0, 1000)


@dataclass
class ModelLink:
    """A connection as its broker sees it."""

    number: int
    url: str
    is_open: bool = False
    is_greeted: bool = False
    #: Backend subscription to the sequence sent last.
    sent: dict[int, int] = field(default_factory=dict)
    to_client: deque[messages.FromBroker] = field(default_factory=deque)


@dataclass
class Seen:
    """What the application was told about one subscription, in order: results, and gaps up to a position."""

    begin: Position | None = None
    heard: list[tuple[str, Position]] = field(default_factory=list)
    is_over: bool = False


class World(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.sequence = 10
        self.ids: dict[str, int] = {}
        self.channel_of: dict[int, str] = {}
        self.history: dict[int, list[int]] = {}
        self.earliest = 0
        self.links: dict[int, ModelLink] = {}
        #: What is kept for the device, wherever it is: backend subscription to acknowledged sequence.
        self.kept: dict[int, int] = {}
        self.seen: dict[int, Seen] = {}
        self.asked: dict[int, str] = {}
        self.requests = 0
        self.is_asked = False
        self.brokers = 1

    @initialize(chance=st.sampled_from([0.0, 0.5, 0.99]))
    def begin(self, chance: float) -> None:
        self.session = Session(SessionOptions("phone", "token", (), has_coordinator=True), lambda: chance)
        self.tell(ev.Started())
        self.subscribe("A")
        self.go_well(1.0, 0, 1)

    # The client's side

    def tell(self, event: ev.Event) -> None:
        for instruction in self.session.handle(event, self.now_s):
            match instruction:
                case ev.Connect(link, url):
                    self.links[link] = ModelLink(link, url)
                case ev.Disconnect(link):
                    self.links.pop(link, None)
                case ev.Send(link, message):
                    if link in self.links:
                        self.broker_hears(self.links[link], message)
                case ev.RequestPlacement():
                    self.is_asked = True
                case ev.Deliver(request, position):
                    self.seen[request].heard.append(("result", position))
                case ev.TellGap(request, position):
                    self.seen[request].heard.append(("gap", position))
                case ev.TellSubscribed(request, position):
                    assert self.seen[request].begin is None
                    self.seen[request].begin = position
                case ev.TellRefused(request):
                    self.seen[request].is_over = True
                    self.asked.pop(request, None)
                case ev.TellConnected() | ev.TellUnsubscribed():
                    pass
                case _:
                    raise AssertionError(instruction)

    # The brokers' side

    def backend(self, channel: str) -> int:
        if channel not in self.ids:
            number = self.ids[channel] = len(self.history) + 1
            self.history[number], self.channel_of[number] = [], channel
        return self.ids[channel]

    def broker_hears(self, link: ModelLink, message: messages.FromSubscriber) -> None:
        match message:
            case messages.Hello():
                link.is_greeted = True
                kept = [
                    messages.Subscribed(number, self.channel_of[number], {}, f"{number}-{acked}")
                    for number, acked in self.kept.items()
                ]
                link.to_client.append(messages.Welcome("ann/phone", "phone", link.url, kept))
                link.sent = dict(self.kept)
                for subscribe in message.subscriptions:
                    self.serve(link, subscribe)
            case messages.Subscribe():
                self.serve(link, message)
            case messages.Unsubscribe(number, request):
                link.sent.pop(number, None)
                self.kept.pop(number, None)
                link.to_client.append(messages.Unsubscribed(number, request))
            case messages.Ack(positions):
                for text in positions:
                    position = Position.parse(text)
                    if position.epoch in self.kept:
                        acked = min(position.sequence, link.sent.get(position.epoch, 0))
                        self.kept[position.epoch] = max(self.kept[position.epoch], acked)
            case messages.Ping():
                link.to_client.append(messages.Pong())

    def serve(self, link: ModelLink, subscribe: messages.Subscribe) -> None:
        number = self.backend(subscribe.channel)
        recovered = True
        if subscribe.position and Position.parse(subscribe.position).epoch == number:
            self.kept[number] = link.sent[number] = Position.parse(subscribe.position).sequence
        else:
            recovered = not subscribe.position
            if number not in self.kept:
                self.kept[number] = self.sequence
                link.sent[number] = self.sequence
        position = f"{number}-{self.kept[number]}"
        link.to_client.append(
            messages.Subscribed(number, subscribe.channel, {}, position, recovered, subscribe.request)
        )

    def broker_sends(self, link: ModelLink, at_most: int) -> None:
        """Push results on: the broker decides when."""
        for number in list(link.sent):
            if link.sent[number] < self.earliest:
                text = f"{number}-{self.earliest}"
                link.to_client.append(messages.HistoryGone(number, text, "past retention"))
                link.sent[number] = self.earliest
            for sequence in [one for one in self.history[number] if one > link.sent[number]][:at_most]:
                link.sent[number] = sequence
                line = b'{"type":"notification","subscription":%d,"channel":"","position":"%d-%d",'
                rest = b'"committed_at_us":0,"payload":{}}'
                link.to_client.append(messages.decode_from_broker(line % (number, number, sequence) + rest))

    # What can happen

    def pick(self, pick: int, *, is_open: bool) -> ModelLink | None:
        links = [link for link in self.links.values() if link.is_open == is_open]
        return links[pick % len(links)] if links else None

    @rule(channel=CHANNELS)
    def subscribe(self, channel: str) -> None:
        self.requests += 1
        self.seen[self.requests] = Seen()
        self.asked[self.requests] = channel
        self.tell(ev.SubscribeAsked(self.requests, channel, {}))

    @precondition(lambda self: self.asked)
    @rule(pick=PICK)
    def unsubscribe(self, pick: int) -> None:
        request = sorted(self.asked)[pick % len(self.asked)]
        del self.asked[request]
        self.seen[request].is_over = True
        self.tell(ev.UnsubscribeAsked(request))

    @rule(channel=CHANNELS, count=st.integers(1, 3))
    def publish(self, channel: str, count: int) -> None:
        for _ in range(count):
            self.sequence += 1
            if channel in self.ids:
                self.history[self.ids[channel]].append(self.sequence)

    @rule(pick=PICK, at_most=st.integers(1, 3))
    def push(self, pick: int, at_most: int) -> None:
        link = self.pick(pick, is_open=True)
        if link is not None and link.is_greeted:
            self.broker_sends(link, at_most)

    @rule(pick=PICK, count=st.integers(1, 5))
    def arrive(self, pick: int, count: int) -> None:
        link = self.pick(pick, is_open=True)
        while link is not None and link.to_client and count and link.number in self.links:
            count -= 1
            self.tell(ev.Received(link.number, link.to_client.popleft()))

    @rule(pick=PICK, works=st.booleans())
    def open(self, pick: int, works: bool) -> None:
        if (link := self.pick(pick, is_open=False)) is not None:
            if works:
                link.is_open = True
                self.tell(ev.Opened(link.number))
            else:
                del self.links[link.number]
                self.tell(ev.Closed(link.number, 0, "refused"))

    @rule(pick=PICK, code=st.sampled_from([0, 1001, messages.CLOSE_SLOW, messages.CLOSE_MOVED]))
    def lose(self, pick: int, code: int) -> None:
        if (link := self.pick(pick, is_open=True)) is not None:
            del self.links[link.number]
            self.tell(ev.Closed(link.number, code))

    @precondition(lambda self: self.is_asked)
    @rule(answers=st.booleans(), broker=st.integers(1, 3))
    def place(self, answers: bool, broker: int) -> None:
        self.is_asked = False
        if answers:
            self.tell(ev.Placed(f"b{broker}", f"http://b{broker}"))
        else:
            self.tell(ev.PlacementFailed("away"))

    @rule(pick=PICK, broker=st.integers(1, 3), after_ms=st.sampled_from([0, 1000]))
    def move(self, pick: int, broker: int, after_ms: int) -> None:
        link = self.pick(pick, is_open=True)
        if link is not None and link.is_greeted:
            link.to_client.append(messages.Move(f"http://b{broker}", f"b{broker}", after_ms))

    @rule(pick=PICK)
    def acknowledge(self, pick: int) -> None:
        with_results = [(one, seen) for one, seen in self.seen.items() if seen.heard and not seen.is_over]
        if with_results:
            request, seen = with_results[pick % len(with_results)]
            self.tell(ev.Acknowledged(request, seen.heard[pick % len(seen.heard)][1]))

    @rule(seconds=st.sampled_from([0.1, 1.0, 20.0]), at_most=st.integers(0, 2), broker=st.integers(1, 3))
    def go_well(self, seconds: float, at_most: int, broker: int) -> None:
        """Everything under way works out: without this, few histories get anywhere."""
        self.now_s += seconds
        self.tell(ev.TimePassed())
        if self.is_asked:
            self.place(answers=True, broker=broker)
        for number in list(self.links):
            if number in self.links and not self.links[number].is_open:
                self.links[number].is_open = True
                self.tell(ev.Opened(number))
        for link in list(self.links.values()):
            if link.is_greeted and at_most:
                self.broker_sends(link, at_most)
            while link.to_client and link.number in self.links:
                self.tell(ev.Received(link.number, link.to_client.popleft()))

    @rule(seconds=st.sampled_from([0.1, 1.0, 15.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.tell(ev.TimePassed())

    @rule()
    def retain_less(self) -> None:
        """Results up to here are removed, as far as brokers can tell."""
        self.earliest = self.sequence

    @rule(channel=CHANNELS)
    def begin_anew(self, channel: str) -> None:
        """A backend subscription is lost at the cluster: brokers that held it let go of their connections."""
        number = self.ids.pop(channel, None)
        if number is None:
            return
        self.kept.pop(number, None)
        for link in list(self.links.values()):
            del self.links[link.number]
            self.tell(ev.Closed(link.number, 1001) if link.is_open else ev.Closed(link.number, 0, "gone"))

    # What must hold

    @invariant()
    def in_order_and_once(self) -> None:
        """Within an epoch positions only grow; epochs only change through a gap."""
        for seen in self.seen.values():
            last = seen.begin
            for kind, position in seen.heard:
                assert last is not None, "told before it was subscribed"
                assert kind == "gap" or (position.epoch == last.epoch and position.sequence > last.sequence)
                last = position

    def teardown(self) -> None:
        """Left alone, with everything working, the application gets all that there is."""
        if not hasattr(self, "session"):
            return
        for _ in range(40):
            self.now_s += 50.0
            self.tell(ev.TimePassed())
            for _ in range(10):
                if self.is_asked:
                    self.is_asked = False
                    self.tell(ev.Placed("b1", "http://b1"))
                for link in list(self.links.values()):
                    if link.number not in self.links:
                        continue
                    if not link.is_open:
                        link.is_open = True
                        self.tell(ev.Opened(link.number))
                    self.broker_sends(link, 1000)
                    while link.to_client and link.number in self.links:
                        self.tell(ev.Received(link.number, link.to_client.popleft()))
        self.in_order_and_once()
        for seen in self.seen.values():
            self.complete(seen)
        for request, channel in self.asked.items():
            seen = self.seen[request]
            assert seen.begin is not None, f"{channel} was never subscribed: {self.session.trouble}"
            last = seen.heard[-1][1] if seen.heard else seen.begin
            assert last.epoch == self.ids[channel]
            missing = [one for one in self.history[last.epoch] if one > last.sequence]
            assert not missing

    def complete(self, seen: Seen) -> None:
        """Between a result and what was told before it lies nothing: what the application missed is told as a gap."""
        last = seen.begin
        for kind, position in seen.heard:
            assert last is not None
            if kind == "result":
                between = [one for one in self.history[position.epoch] if last.sequence < one < position.sequence]
                assert not between
            last = position


TestWorld = World.TestCase
# Histories are long: one hundred of them, as elsewhere, meet too little.
TestWorld.settings = settings(stateful_step_count=60, deadline=None)
