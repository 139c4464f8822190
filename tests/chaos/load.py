"""Publishers and a broker, each a thread that speaks HTTP to the cluster and writes down what it was told."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from chaos.history import Attempt, History, Kind, Outcome, ReceiptAnswer, RecordSet, Result, Violation
from chaos.process import ClusterProcess
from chaos.workload import EVENTS, FEEDS, Author, body_of
from tocsin.client import ClusterClient, ServerError

_REQUEST_TIMEOUT_S = 30.0
#: A publisher that wants to hear of the commit waits less than a start takes: some must give up, not knowing.
_WAIT_COMMIT_TIMEOUT_S = 4.0
#: Between two requests of a publisher, on average.
_PAUSE_S = 0.15
#: How long a publisher tries to learn the outcome of a keyed publish: longer than any recovery.
_TRY_FOR_S = 180.0


class Publisher:
    """Publishes set after set. With a key it tries until it is told; without one an unknown outcome stays unknown."""

    def __init__(
        self, history: History, cluster: ClusterProcess, author: Author, on_acknowledged: Callable[[], None]
    ) -> None:
        self._history = history
        self._cluster = cluster
        self._author = author
        self._chance = random.Random(f"{author.name}/{author.chance.random()}")
        self._on_acknowledged = on_acknowledged
        self._client = ClusterClient(cluster.url, timeout_s=_REQUEST_TIMEOUT_S)
        self._impatient = ClusterClient(cluster.url, timeout_s=_WAIT_COMMIT_TIMEOUT_S)
        self._keyed: list[RecordSet] = []
        self._receipts: list[tuple[str, str]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=author.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def join(self) -> None:
        self._thread.join(_TRY_FOR_S + 2 * _REQUEST_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stopping.wait(self._chance.expovariate(1 / _PAUSE_S)):
            if not self._cluster.up.wait(1.0):
                continue
            choice = self._chance.random()
            if choice < 0.08 and self._keyed:
                # Long acknowledged, and perhaps by a process that is dead: must be known all the same.
                recent = self._keyed[-30:]
                self.attempt(self._chance.choice(recent), keyed=True, wait_commit=False)
            elif choice < 0.16 and self._receipts:
                self._ask(*self._chance.choice(self._receipts[-50:]))
            else:
                one = self._author.next_set()
                self.deliver(one, keyed=one.dataset != EVENTS or self._chance.random() < 0.8)

    def deliver(self, one: RecordSet, *, keyed: bool, wait_commit: bool | None = None) -> Outcome:
        """Publish a set until its outcome is known, or for ever unknown."""
        self._history.sets[one.name] = one
        deadline_s = time.monotonic() + _TRY_FOR_S
        while True:
            if wait_commit is None and self._chance.random() < 0.1:
                outcome = self.attempt(one, keyed=keyed, wait_commit=True, client=self._impatient)
            else:
                outcome = self.attempt(one, keyed=keyed, wait_commit=bool(wait_commit))
            if outcome is Outcome.OK or (outcome is Outcome.UNKNOWN and not keyed) or time.monotonic() > deadline_s:
                break
            self._cluster.up.wait(1.0)
            self._stopping.wait(0.2)
        if keyed and outcome is Outcome.OK:
            self._keyed.append(one)
        return outcome

    def attempt(
        self, one: RecordSet, *, keyed: bool, wait_commit: bool, client: ClusterClient | None = None
    ) -> Outcome:
        feed, key = FEEDS[one.dataset], one.name if keyed else None
        try:
            answer = (client or self._client).publish(feed, body_of(one), wait_commit=wait_commit, key=key)
        except httpx.ConnectError:
            outcome = Outcome.REFUSED  # There was nobody to send it to.
        except httpx.TransportError:
            outcome = Outcome.UNKNOWN
        except ServerError as exc:
            outcome = Outcome.REFUSED if exc.status in {429, 503} or exc.status < 500 else Outcome.UNKNOWN
            if exc.status < 500 and not exc.temporary:
                what = f"{one.name} was refused with {exc.status}: {exc}"
                self._history.noticed.append(Violation(Kind.CONTRADICTING_RECEIPT, what))
        else:
            self._on_acknowledged()
            self._history.attempts.append(Attempt(one.name, Outcome.OK, answer["receipt"], answer["records"]))
            self._receipts.append((feed, answer["receipt"]))
            self._note(answer)
            return Outcome.OK
        self._history.attempts.append(Attempt(one.name, outcome))
        return outcome

    def ask_everything(self, limit: int) -> None:
        """Ask about the receipts given to this publisher once more, `limit` of them at most; its last act."""
        for feed, receipt in self._chance.sample(self._receipts, min(limit, len(self._receipts))):
            self._ask(feed, receipt)
        self._client.close()
        self._impatient.close()

    def _ask(self, feed: str, receipt: str) -> None:
        try:
            self._note(self._client.receipt(feed, receipt))
        except httpx.TransportError:
            return
        except ServerError as exc:
            if exc.status == 404:
                what = f"{receipt} was given for {feed}, and later unknown: {exc}"
                self._history.noticed.append(Violation(Kind.CONTRADICTING_RECEIPT, what))

    def _note(self, answer: dict[str, Any]) -> None:
        if answer["state"] == "committed":
            self._history.receipts.append(ReceiptAnswer(answer["receipt"], answer["accepted"], answer["rejected"]))


class SteadyBroker:
    """Pulls with its cursor all the time, and starts from the same cursor again when an answer does not come."""

    def __init__(self, history: History, cluster: ClusterProcess, name: str, cursor: int) -> None:
        self._history = history
        self._cluster = cluster
        self._name = name
        self.cursor = cursor
        #: Set whenever results come.
        self.arrived = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        history.readers[name] = []

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Pull what is left, then stop."""
        self._stopping.set()
        self._thread.join(2 * _REQUEST_TIMEOUT_S)

    def _run(self) -> None:
        with ClusterClient(self._cluster.url, timeout_s=_REQUEST_TIMEOUT_S) as client:
            while True:
                finishing = self._stopping.is_set()
                try:
                    got, self.cursor = pull(client, self._name, self.cursor, wait_s=0 if finishing else 1)
                except (httpx.TransportError, ServerError):
                    self._cluster.up.wait(1.0)
                    self._stopping.wait(0.05)
                    continue
                self._history.readers[self._name] += got
                if got:
                    self.arrived.set()
                if finishing and not got:
                    return


def pull(
    client: ClusterClient, broker: str, cursor: int, *, limit: int = 5000, wait_s: float = 0
) -> tuple[list[Result], int]:
    lines, cursor = client.pull(broker, cursor, limit=limit, wait_s=wait_s)
    return [_result(line) for line in lines], cursor


def _result(line: dict[str, Any]) -> Result:
    epoch, sequence = line["position"].split("-")
    return Result(line["subscription"], line["channel"], int(epoch), int(sequence), line["payload"])
