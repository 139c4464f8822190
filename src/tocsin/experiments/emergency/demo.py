"""The demonstration: a cluster of its own, the seven channels, and what each subscription would be told.

Everything goes over the HTTP API, as any application's would. It ends by itself and succeeds only if every record was
accepted and every channel had results.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import json
import statistics
import subprocess
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tocsin.experiments.emergency.city import City
from tocsin.experiments.emergency.schema import CHANNELS, longest_period_s, schema_sql
from tocsin.experiments.emergency.workload import EmergencyWorkload, Record, encode
from tocsin.model.position import Position, commit_of
from tocsin.testing.processes import running_cluster

#: Periods of 10, 20 and 30 s become 2, 4 and 6 s, so that each channel runs several times while people watch.
_PERIOD_SCALE = 0.2
#: A cluster is ready within 20 s on two cores; a busy machine gets three times that and half as much again.
_READY_TIMEOUT_S = 90.0
#: A request that was turned away for the moment is sent again this often; with a second's pause, half a minute.
_ATTEMPTS = 30
#: More lines than this for one pull scroll by unread.
_LINES_PER_PULL = 6
#: Everybody's location and the next reports are published this often.
_PUBLISH_EVERY_S = 1.0
_BROKER = "demo"


class DemoFailed(Exception):
    """The cluster did not do what the demonstration asked of it."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    seconds: float = 40.0
    users: int = 60
    subscriptions: int = 140
    reports_per_s: int = 10
    seed: int = 0
    #: A WKT file of roads; without one the city is generated.
    roads: Path | None = None


@dataclass(slots=True)
class ChannelTally:
    subscriptions: int = 0
    results: int = 0
    #: The results commits that this channel's results came in: one for each run that found something.
    commits: set[int] = field(default_factory=set)
    delays_s: list[float] = field(default_factory=list)
    examples: list[Record] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """What was sent and what came back."""

    published: int = 0
    accepted: int = 0
    rejected: int = 0
    notifications: int = 0
    channels: dict[str, ChannelTally] = field(default_factory=lambda: {name: ChannelTally() for name in CHANNELS})
    #: When each report was sent, to tell how long its results took.
    sent_at: dict[str, float] = field(default_factory=dict)

    @property
    def succeeded(self) -> bool:
        return self.accepted == self.published > 0 and all(channel.results for channel in self.channels.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "succeeded": self.succeeded,
            "records": {"published": self.published, "accepted": self.accepted, "rejected": self.rejected},
            "notifications": self.notifications,
            "channels": {
                name: {
                    "subscriptions": channel.subscriptions,
                    "runs_with_results": len(channel.commits),
                    "results": channel.results,
                    "median_delay_s": round(statistics.median(channel.delays_s), 3) if channel.delays_s else None,
                    "examples": channel.examples,
                }
                for name, channel in self.channels.items()
            },
        }


def run_demo(options: DemoOptions, *, as_json: bool = False) -> int:
    """Run the demonstration and return the exit code: 0 if every channel had results and every record was accepted."""
    # As JSON, standard output is for the one object: what is shown on the way goes to standard error.
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    demo = _Demo(options, console)
    failures: list[str] = []
    try:
        asyncio.run(demo.run())
    except* DemoFailed as group:  # publishing and pulling go on side by side, so there may be several
        failures = [str(exc) for exc in _leaves(group)]
    if failures:
        console.print(f"[bold red]The demonstration failed:[/] {escape(failures[0])}")
        return 1
    tally = demo.tally
    if as_json:
        print(json.dumps(tally.to_json()))
    else:
        _show_summary(tally, console)
    if not tally.succeeded:
        console.print("[bold red]Not every record was accepted, or some channel had no results.[/]")
    return 0 if tally.succeeded else 1


class _Demo:
    def __init__(self, options: DemoOptions, console: Console) -> None:
        city = City.from_wkt(options.roads.read_text()) if options.roads else City.generate(options.seed)
        self._options = options
        self._console = console
        self._workload = EmergencyWorkload(city, users=options.users, seed=options.seed)
        self._statements = schema_sql(_PERIOD_SCALE)
        self.tally = Tally()
        #: What each backend subscription is, as people would say it.
        self._labels: dict[str, str] = {}
        self._started_at = time.monotonic()

    async def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="tocsin-demo-") as folder:
            async with _cluster(Path(folder), self._say) as http:
                await self._prepare(http, Path(folder) / "data")
                self._say(f"publishing {self._options.reports_per_s} reports/s for {self._options.seconds:.0f} s\n")
                done = asyncio.Event()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._pull(http, done))
                    await self._publish_for(http, self._options.seconds)
                    done.set()

    async def _prepare(self, http: _Api, data_dir: Path) -> None:
        await http.call("POST", "/v1/statements", json={"sql": self._statements})
        imports = data_dir / "imports"
        imports.mkdir(parents=True, exist_ok=True)
        _write_csv(imports / "shelters.csv", self._workload.shelters())
        await http.call("POST", "/v1/statements", json={"sql": "LOAD DATASET Shelters FROM 'shelters.csv'"})
        await http.call("PUT", f"/v1/brokers/{_BROKER}", json={})
        await self._publish(http, "locations", self._workload.locations())

        wanted = [
            {"channel": interest.channel, "parameters": interest.parameters}
            for interest in self._workload.interests(self._options.subscriptions)
        ]
        answer = await http.call("POST", f"/v1/brokers/{_BROKER}/subscriptions", json={"subscriptions": wanted})
        made = answer.json()["subscriptions"]
        for subscription in made:
            values = ", ".join(str(value) for value in subscription["parameters"].values())
            self._labels[str(subscription["id"])] = f"{subscription['channel']}({values})"
        for label in self._labels.values():
            self.tally.channels[label.partition("(")[0]].subscriptions += 1
        self._say(f"3 datasets, 2 feeds, 7 channels; {len(made)} interests share {len(self._labels)} subscriptions")

    async def _publish_for(self, http: _Api, seconds: float) -> None:
        """Publish reports and locations once a second, without waiting for those before to be committed."""
        reports = self._workload.reports()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(round(seconds)):
                batch = list(islice(reports, self._options.reports_per_s))
                now = time.monotonic()
                self.tally.sent_at.update({report["id"]: now for report in batch})
                self._workload.move_users(_PUBLISH_EVERY_S)
                tasks.create_task(self._publish(http, "reports", batch))
                tasks.create_task(self._publish(http, "locations", self._workload.locations()))
                await asyncio.sleep(_PUBLISH_EVERY_S)

    async def _publish(self, http: _Api, feed: str, records: Sequence[Record]) -> None:
        self.tally.published += len(records)
        answer = await http.call(
            "POST",
            f"/v1/feeds/{feed}/records",
            params={"wait": "commit"},
            content=b"\n".join(map(encode, records)),
            headers={"Content-Type": "application/x-ndjson", "Idempotency-Key": str(uuid.uuid4())},
        )
        receipt = answer.json()
        self.tally.accepted += receipt["accepted"]
        self.tally.rejected += receipt["rejected"]

    async def _pull(self, http: _Api, done: asyncio.Event) -> None:
        """Pull and show results until all has been published and every channel has had time for one more run."""
        cursor: str | None = None
        # Twice the longest period: a run may have begun just before the last record and take its whole period.
        patience_s = 2.0 * longest_period_s(self._statements)
        quiet_since = time.monotonic()
        while not (done.is_set() and time.monotonic() - quiet_since > patience_s):
            params = {"wait_s": "1"} if cursor is None else {"wait_s": "1", "after": cursor}
            answer = await http.call("GET", f"/v1/brokers/{_BROKER}/results", params=params)
            cursor = answer.headers.get("Tocsin-Cursor", cursor)
            results = [json.loads(line) for line in answer.text.splitlines() if line]
            if results or not done.is_set():
                quiet_since = time.monotonic()
            self._take(results)

    def _take(self, results: Sequence[Record]) -> None:
        """Count `results` and show what each subscription would be told."""
        now = time.monotonic()
        by_subscription: dict[str, list[Record]] = defaultdict(list)
        for result in results:
            by_subscription[str(result["subscription"])].append(result["payload"])
            channel = self.tally.channels[result["channel"]]
            channel.results += 1
            channel.commits.add(commit_of(Position.parse(result["position"]).sequence))
            if (sent_at := self.tally.sent_at.get(result["payload"].get("id"))) is not None:
                channel.delays_s.append(now - sent_at)
            if len(channel.examples) < 2:
                channel.examples.append(result["payload"])
        self.tally.notifications += len(by_subscription)
        for subscription, payloads in islice(by_subscription.items(), _LINES_PER_PULL):
            more = f" [dim]and {len(payloads) - 1} more[/]" if len(payloads) > 1 else ""
            label = self._labels.get(subscription, subscription)
            self._say(f"[bold cyan]{escape(label)}[/] {escape(_in_words(payloads[0]))}{more}")
        if (unseen := len(by_subscription) - _LINES_PER_PULL) > 0:
            self._say(f"[dim]… and notifications for {unseen} more subscriptions[/]")

    def _say(self, text: str) -> None:
        self._console.print(f"[dim]{time.monotonic() - self._started_at:6.1f} s[/]  {text}")


class _Api:
    """Calls to the cluster: waits when told to, and raises with the cluster's own words when refused."""

    def __init__(self, client: httpx.AsyncClient, log: Path) -> None:
        self._client = client
        self._log = log

    async def call(self, method: str, path: str, **request: Any) -> httpx.Response:
        for _ in range(_ATTEMPTS):
            try:
                answer = await self._client.request(method, path, **request)
            except httpx.HTTPError as exc:
                raise DemoFailed(f"{method} {path}: {exc!r}\n{_tail(self._log)}") from exc
            if answer.status_code not in (429, 503):
                break
            await asyncio.sleep(float(answer.headers.get("Retry-After", 1)))
        if answer.is_error:
            raise DemoFailed(f"{method} {path} was answered with {answer.status_code}: {answer.text}")
        return answer


@contextlib.asynccontextmanager
async def _cluster(folder: Path, say: Callable[[str], None]) -> AsyncIterator[_Api]:
    """A cluster of our own, ready to serve; stopped and gone at the end."""
    say("starting a cluster")
    with running_cluster(folder) as cluster:
        async with httpx.AsyncClient(base_url=cluster.url, timeout=120.0, trust_env=False) as client:
            await _until_ready(client, cluster.process, cluster.log)
            say(f"the cluster serves at {client.base_url}")
            yield _Api(client, cluster.log)


async def _until_ready(client: httpx.AsyncClient, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while time.monotonic() < deadline:
        if (code := process.poll()) is not None:
            raise DemoFailed(f"the cluster ended with exit code {code}:\n{_tail(log)}")
        with contextlib.suppress(httpx.TransportError):
            answer = await client.get("/v1/status")
            if answer.status_code == 200 and answer.json().get("state") == "ready":
                return
        await asyncio.sleep(0.1)
    raise DemoFailed(f"the cluster was not ready after {_READY_TIMEOUT_S:.0f} s:\n{_tail(log)}")


def _leaves(group: BaseExceptionGroup[DemoFailed]) -> Iterator[DemoFailed]:
    for exc in group.exceptions:
        if isinstance(exc, BaseExceptionGroup):
            yield from _leaves(exc)
        else:
            yield exc


def _tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _write_csv(path: Path, records: Sequence[Record]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows(records)


def _in_words(payload: Record) -> str:
    """One result as a notification might put it."""
    message = str(payload.get("message", "")).partition(". ")[0]
    metres = f", {payload['metres']:.0f} m away" if "metres" in payload else ""
    shelter = (
        f"; shelter: {payload['shelter']}, {payload['shelter_metres']:.0f} m from you" if "shelter" in payload else ""
    )
    return f"{message}{metres}{shelter}"


def _show_summary(tally: Tally, console: Console) -> None:
    delivered = sum(channel.results for channel in tally.channels.values())
    table = Table("channel", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("subscriptions", "runs", "results", "delay"):
        table.add_column(name, justify="right")
    for name, channel in tally.channels.items():
        delay = f"{statistics.median(channel.delays_s):.1f} s" if channel.delays_s else "–"
        figures = (channel.subscriptions, len(channel.commits), channel.results)
        table.add_row(name, *map(str, figures), delay)
    console.print("\nFor example:")
    for name, channel in tally.channels.items():
        for payload in channel.examples:
            console.print(f"  [bold cyan]{name}[/] {escape(_in_words(payload))}")
    console.print(table)
    console.print(
        f"{tally.published} records published, {tally.accepted} accepted, {tally.rejected} rejected; "
        f"{delivered} results in {tally.notifications} notifications-to-be. "
        "Runs are those with results; the delay is the median from publishing to pulling."
    )
