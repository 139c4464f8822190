"""The demonstration: a whole system of its own, the seven channels, and people who are told.

Publishers, the cluster, the coordinator, brokers and subscribers are real processes and sockets, and every call goes
over the public APIs. Half-way through a broker is taken down, and its people are moved. It ends by itself and succeeds
only if every record was accepted, every channel notified somebody, and what everybody was handed is exactly what the
cluster has as results: nothing lost, doubled, out of order or for somebody else.
"""

from __future__ import annotations

import asyncio
import csv
import json
import signal
import statistics
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tocsin.experiments.emergency.audience import Audience, call_of, in_words
from tocsin.experiments.emergency.city import City
from tocsin.experiments.emergency.network import DemoFailed, Network, running_network
from tocsin.experiments.emergency.schema import longest_period_s, schema_sql
from tocsin.experiments.emergency.tally import Tally, audit
from tocsin.experiments.emergency.workload import EmergencyWorkload, Interest, Record, encode
from tocsin.model.position import Position

#: Periods of 10, 20 and 30 s become 2, 4 and 6 s, so that each channel runs several times while people watch.
_PERIOD_SCALE = 0.2
#: Everybody's location and the next reports are published this often.
_PUBLISH_EVERY_S = 1.0
#: A broker of the cluster's that only looks: what it pulls is what everybody should have been told.
_AUDITOR = "auditor"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    seconds: float = 40.0
    users: int = 60
    subscriptions: int = 140
    reports_per_s: int = 10
    seed: int = 0
    #: A WKT file of roads; without one the city is generated.
    roads: Path | None = None
    brokers: int = 3


def run_demo(options: DemoOptions, *, as_json: bool = False) -> int:
    """Run the demonstration and return the exit code: 0 if all went as it should."""
    # As JSON, standard output is for the one object: what is shown on the way goes to standard error.
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    demo = _Demo(options, console)
    failures: list[str] = []
    try:
        asyncio.run(demo.run())
    except* DemoFailed as group:  # several things go on side by side, so there may be several
        failures = [str(exc) for exc in _leaves(group)]
    if failures:
        console.print(f"[bold red]The demonstration failed:[/] {escape(failures[0])}")
        return 1
    tally = demo.tally
    if as_json:
        print(json.dumps(tally.to_json()))
    else:
        show_summary(tally, console)
    if not tally.succeeded:
        console.print("[bold red]Not all went as it should: see above.[/]")
    return 0 if tally.succeeded else 1


class _Demo:
    def __init__(self, options: DemoOptions, console: Console) -> None:
        self._city = City.from_wkt(options.roads.read_text()) if options.roads else City.generate(options.seed)
        self._options = options
        self._console = console
        self._workload = EmergencyWorkload(self._city, users=options.users, seed=options.seed)
        self._statements = schema_sql(_PERIOD_SCALE)
        self.tally = Tally()
        self._started_at = time.monotonic()

    async def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="tocsin-demo-") as folder:
            async with running_network(Path(folder), self._city, self._options.brokers, self._say) as network:
                await self._prepare(network, Path(folder) / "cluster" / "data")
                wanted = self._interests()
                begin = await self._prepare_audit(network, wanted)
                async with Audience(network.coordinator_url, self.tally, self._say) as audience:
                    await self._gather(audience, wanted)
                    await self._live(network, audience)
                    # Twice the longest period: a run may have begun just before the last record and take all of it.
                    await audience.quiet(2.0 * longest_period_s(self._statements))
                    self.tally.brokers_after = audience.at_brokers()
                await self._audit(network, begin)

    def _interests(self) -> dict[str, list[Interest]]:
        """Who wants what: those who ask for what is near them ask for themselves."""
        users = self._workload.user_ids
        wanted: dict[str, list[Interest]] = {user: [] for user in users}
        for number, interest in enumerate(self._workload.interests(self._options.subscriptions)):
            wanted[str(interest.parameters.get("user_id", users[number % len(users)]))].append(interest)
        # Two interests of one person may be the same.
        return {user: list({call_of(one): one for one in interests}.values()) for user, interests in wanted.items()}

    async def _prepare(self, network: Network, data_dir: Path) -> None:
        await network.cluster.call("POST", "/v1/statements", json={"sql": self._statements})
        imports = data_dir / "imports"
        imports.mkdir(parents=True, exist_ok=True)
        _write_csv(imports / "shelters.csv", self._workload.shelters())
        await network.cluster.call("POST", "/v1/statements", json={"sql": "LOAD DATASET Shelters FROM 'shelters.csv'"})
        await self._publish(network, "locations", self._workload.locations())

    async def _prepare_audit(self, network: Network, wanted: dict[str, list[Interest]]) -> int:
        """Let the auditor hold everything that anybody will; returns where its results begin."""
        answer = await network.cluster.call("PUT", f"/v1/brokers/{_AUDITOR}", json={})
        each = {call_of(one): one for interests in wanted.values() for one in interests}
        asks = [{"channel": one.channel, "parameters": one.parameters} for one in each.values()]
        made = await network.cluster.call("POST", f"/v1/brokers/{_AUDITOR}/subscriptions", json={"subscriptions": asks})
        self._calls = {int(one["id"]): call for one, call in zip(made.json()["subscriptions"], each, strict=True)}
        return int(answer.json()["cursor"])

    async def _gather(self, audience: Audience, wanted: dict[str, list[Interest]]) -> None:
        places = {str(one["user_id"]): (one["x"], one["y"]) for one in self._workload.locations()}
        await audience.gather(wanted, places)
        self.tally.brokers_before = audience.at_brokers()
        holds = len(self.tally.received)
        self._say(
            f"3 datasets, 2 feeds, 7 channels; {self._options.users} people hold {holds} subscriptions, which share"
            f" {len(self._calls)} at the cluster"
        )
        self._say(f"people at brokers: {_counted(self.tally.brokers_before)}")

    async def _live(self, network: Network, audience: Audience) -> None:
        options = self._options
        self._say(f"publishing {options.reports_per_s} reports/s for {options.seconds:.0f} s\n")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._publish_for(network, options.seconds))
            if options.brokers > 1:
                await asyncio.sleep(options.seconds / 2)
                await self._take_down(network, audience)

    async def _take_down(self, network: Network, audience: Audience) -> None:
        """End a broker as an operator would: it hands its people over to the others first."""
        name = audience.at_brokers().most_common(1)[0][0]
        moving = audience.at_brokers()[name]
        self._say(f"[bold yellow]taking {name} down: its {moving} people move to other brokers[/]")
        process = network.brokers[name].process
        process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(process.wait, 30)
        after = audience.at_brokers()
        self.tally.moved = moving - after[name]
        self._say(f"[bold yellow]{name} has ended with code {code}; people at brokers: {_counted(after)}[/]")

    async def _publish_for(self, network: Network, seconds: float) -> None:
        """Publish reports and locations once a second, without waiting for those before to be committed."""
        reports = self._workload.reports()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(round(seconds)):
                batch = list(islice(reports, self._options.reports_per_s))
                now = time.monotonic()
                self.tally.sent_at.update({report["id"]: now for report in batch})
                self._workload.move_users(_PUBLISH_EVERY_S)
                tasks.create_task(self._publish(network, "reports", batch))
                tasks.create_task(self._publish(network, "locations", self._workload.locations()))
                await asyncio.sleep(_PUBLISH_EVERY_S)

    async def _publish(self, network: Network, feed: str, records: Sequence[Record]) -> None:
        self.tally.published += len(records)
        answer = await network.cluster.call(
            "POST",
            f"/v1/feeds/{feed}/records",
            params={"wait": "commit"},
            content=b"\n".join(map(encode, records)),
            headers={"Content-Type": "application/x-ndjson", "Idempotency-Key": str(uuid.uuid4())},
        )
        receipt = answer.json()
        self.tally.accepted += receipt["accepted"]
        self.tally.rejected += receipt["rejected"]

    async def _audit(self, network: Network, begin: int) -> None:
        results: dict[str, list[int]] = defaultdict(list)
        cursor = str(begin)
        while True:
            answer = await network.cluster.call(
                "GET", f"/v1/brokers/{_AUDITOR}/results", params={"after": cursor, "limit": 100_000}
            )
            lines = answer.text.splitlines()
            for line in lines:
                position = Position.parse(json.loads(line)["position"])
                results[self._calls[position.epoch]].append(position.sequence)
            cursor = answer.headers["Tocsin-Cursor"]
            if not lines:
                break
        self.tally.audit = audit(self.tally.received, results)

    def _say(self, text: str) -> None:
        self._console.print(f"[dim]{time.monotonic() - self._started_at:6.1f} s[/]  {text}")


def _leaves(group: BaseExceptionGroup[DemoFailed]) -> Iterator[DemoFailed]:
    for exc in group.exceptions:
        if isinstance(exc, BaseExceptionGroup):
            yield from _leaves(exc)
        else:
            yield exc


def _counted(brokers: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(brokers.items()))


def _write_csv(path: Path, records: Sequence[Record]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows(records)


def show_summary(tally: Tally, console: Console) -> None:
    table = Table("channel", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("subscriptions", "notifications", "delay"):
        table.add_column(name, justify="right")
    for name, channel in tally.channels.items():
        delay = f"{statistics.median(channel.delays_s):.1f} s" if channel.delays_s else "–"
        table.add_row(name, str(channel.subscriptions), str(channel.notifications), delay)
    console.print("\nFor example:")
    for name, channel in tally.channels.items():
        for payload in channel.examples:
            console.print(f"  [bold cyan]{name}[/] {escape(in_words(payload))}")
    console.print(table)
    console.print(
        f"{tally.published} records published, {tally.accepted} accepted, {tally.rejected} rejected; "
        f"{tally.notifications} notifications. The delay is the median from publishing to a subscriber's hands,"
        " most of it the channel's period."
    )
    if tally.audit is not None:
        found = tally.audit
        console.print(
            f"Against the cluster's own results: {found.expected} expected, {found.lost} lost, {found.doubled} doubled,"
            f" {found.reordered} out of order, {found.misdelivered} for somebody else; {tally.moved} people moved to"
            " another broker meanwhile."
        )
