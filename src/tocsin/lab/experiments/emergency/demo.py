"""The demonstration: the living city on a whole system of its own, with its loads being evened out.

Everything is real: publishers, cluster, coordinator, brokers and people, each over the public APIs. It succeeds only if
every record was accepted, every channel told somebody something, and what everybody was handed is exactly what the
cluster has as results, through every move from broker to broker.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import httpx
import uvloop
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tocsin.client import CoordinatorClient, Notification
from tocsin.client.shell.http import ServerError
from tocsin.errors import TocsinError
from tocsin.lab.experiments.emergency.city import City
from tocsin.lab.experiments.emergency.cityrun import Balancing, CityRun, RunningCity
from tocsin.lab.experiments.emergency.network import RunFailed
from tocsin.lab.experiments.emergency.scenario import CityScenario, draw_interactions, read_interactions
from tocsin.lab.experiments.emergency.tally import percentiles_s
from tocsin.lab.experiments.emergency.workload import EmergencyWorkload, Record
from tocsin.runtime.files import raise_open_files
from tocsin.simulator.timeline import PlanRecord
from tocsin.testing.network import RunningNetwork

#: More lines than this a second scroll by unread.
_LINES_PER_S = 4
#: The demonstration is in a hurry: everybody comes and subscribes within the first minutes, and is balanced at once.
_SCENARIO = CityScenario(seed=2, login_s=(0.0, 60.0), subscribe_s=(60.0, 90.0))
_BALANCING = Balancing(begins_at_s=90.0, hits=1, rates_window_s=60.0)
#: Who watches wants to see something soon, not every channel in time from its first run on.
_MOST_WARM_UP_S = 8.0
#: A broker is emptied for maintenance, and comes back, at these shares of the time.
_MAINTENANCE = (0.55, 0.75)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    speed_up: float = 6.0
    minutes: float = 30.0
    people: int = 400
    brokers: int = 5
    seed: int = _SCENARIO.seed
    #: A WKT file of roads; without one the city is generated.
    roads: Path | None = None
    #: A file of interactions; without one they are drawn.
    interactions: Path | None = None
    #: End when the scenario does; else when somebody interrupts.
    ends_by_itself: bool = False


def run_demo(options: DemoOptions, *, as_json: bool = False) -> int:
    """Run the demonstration and return the exit code: 0 if all went as it should."""
    # As JSON, standard output is for the one object: what is shown on the way goes to standard error.
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    raise_open_files()
    folder = Path(tempfile.mkdtemp(prefix="tocsin-demo-"))
    try:
        found = _run(options, console, folder)
    except (KeyboardInterrupt, SystemExit):
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if isinstance(found, str):
        console.print(f"[bold red]The demonstration failed:[/] {escape(found)}")
        console.print(f"The logs are in {folder}.", markup=False)
        return 1
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        show_summary(found, console)
    for failure in found.failures:
        console.print(f"[bold red]Wrong:[/] {escape(failure)}")
    if found.failures:
        console.print(f"The logs are in {folder}.", markup=False)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _run(options: DemoOptions, console: Console, folder: Path) -> CityRun | str:
    """What came of it, or why nothing did."""
    failures: list[str] = []
    try:
        return uvloop.run(_Demo(options, console).run(folder))
    # Several things go on side by side, so there may be several.
    except* (RunFailed, TocsinError, ServerError, httpx.HTTPError, OSError) as group:
        failures = [f"{type(exc).__name__}: {exc}" for exc in _leaves(group)]
    return failures[0]


class _Demo:
    def __init__(self, options: DemoOptions, console: Console) -> None:
        self._options = options
        self._console = console
        self._started_s = time.monotonic()
        self._unsaid: dict[str, list[Record]] = defaultdict(list)
        self._scenario = _SCENARIO.lasting(
            options.minutes, seed=options.seed, people=options.people, brokers=options.brokers
        )
        roads = options.roads
        self._city = City.from_wkt(roads.read_text(), options.seed) if roads else City.generate(options.seed)
        self._workload = EmergencyWorkload(self._city, users=options.people, seed=options.seed)

    async def run(self, folder: Path) -> CityRun:
        options, ending = self._options, asyncio.Event()
        path = options.interactions
        interactions = (
            read_interactions(path, self._workload) if path else draw_interactions(self._scenario, self._workload)
        )
        if not options.ends_by_itself:
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, ending.set)
        city = RunningCity(
            self._scenario,
            _BALANCING,
            self._city,
            self._workload,
            interactions,
            options.speed_up,
            self._say,
            self._hear,
            None if options.ends_by_itself else ending,
            (self._talk, self._maintain),
            _MOST_WARM_UP_S,
        )
        return await city.run(folder, self._ready)

    def _ready(self, network: RunningNetwork) -> None:
        self._say(f"[bold]the city lives: look at {network.coordinator.url}/[/]")
        end = "" if self._options.ends_by_itself else "; Ctrl-C ends it"
        self._say(f"{self._options.minutes:g} minutes of it pass {self._options.speed_up:g} times as fast{end}\n")

    async def _maintain(self, network: RunningNetwork) -> None:
        """Empty the broker with the most people for maintenance, as an operator would, and have it back later."""
        real_s = self._scenario.duration_s / self._options.speed_up
        if self._scenario.brokers < 2:
            return
        await asyncio.sleep(real_s * _MAINTENANCE[0])
        name = await asyncio.to_thread(_fullest, network.coordinator.url)
        self._say(f"[bold yellow]{name} is drained for maintenance: its people move to other brokers[/]")
        await asyncio.to_thread(_set_state, network.coordinator.url, name, "draining")
        await asyncio.sleep(real_s * (_MAINTENANCE[1] - _MAINTENANCE[0]))
        await asyncio.to_thread(_set_state, network.coordinator.url, name, "active")
        self._say(f"[bold yellow]{name} is back[/]")

    def _hear(self, user: str, notification: Notification) -> None:
        if len(self._unsaid) <= _LINES_PER_S:
            self._unsaid[f"{user} [bold cyan]{escape(str(notification.subscription))}[/]"].append(notification.payload)

    async def _talk(self, _network: RunningNetwork) -> None:
        """Show what people are told, as much as can be read."""
        while True:
            await asyncio.sleep(1)
            unsaid, self._unsaid = self._unsaid, defaultdict(list)
            for whom, payloads in islice(unsaid.items(), _LINES_PER_S):
                more = f" [dim]and {len(payloads) - 1} more[/]" if len(payloads) > 1 else ""
                self._say(f"{whom} {escape(in_words(payloads[0]))}{more}")

    def _say(self, text: str) -> None:
        self._console.print(f"[dim]{time.monotonic() - self._started_s:6.1f} s[/]  {text}")


def _fullest(url: str) -> str:
    with CoordinatorClient(url) as client:
        return str(max(client.brokers(), key=lambda one: one["connections"])["name"])


def _set_state(url: str, broker: str, state: str) -> None:
    with CoordinatorClient(url) as client:
        client.set_state(broker, state, by="demonstration")


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for exc in group.exceptions:
        if isinstance(exc, BaseExceptionGroup):
            yield from _leaves(exc)
        else:
            yield exc


def in_words(payload: Record) -> str:
    """One result as a notification might put it."""
    message = str(payload.get("message", "")).partition(". ")[0]
    metres = f", {payload['metres']:.0f} m away" if "metres" in payload else ""
    shelter = (
        f"; shelter: {payload['shelter']}, {payload['shelter_metres']:.0f} m from you" if "shelter" in payload else ""
    )
    return f"{message}{metres}{shelter}"


def _kept(plan: PlanRecord) -> str:
    if plan.promised_cov is None or plan.kept_cov is None:
        return ""
    return f", {plan.promised_cov:.2f} with bursts, {plan.kept_cov:.2f} measured in the minute after"


def show_summary(found: CityRun, console: Console) -> None:
    tally, run = found.tally, found.run
    table = Table("channel", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("subscriptions", "notifications", "delay", "99 %"):
        table.add_column(name, justify="right")
    for name, channel in tally.channels.items():
        delays = percentiles_s(channel.delays_s)
        percentiles = (f"{delays['p50']:.1f} s", f"{delays['p99']:.1f} s") if delays else ("–", "–")
        table.add_row(name, str(channel.subscriptions), f"{channel.notifications:,}", *percentiles)
    console.print("\nFor example:")
    for name, channel in tally.channels.items():
        for payload in channel.examples:
            console.print(f"  [bold cyan]{name}[/] {escape(in_words(payload))}")
    console.print(table)
    console.print(
        f"{tally.published:,} reports published, {tally.accepted:,} accepted; {tally.notifications:,} notifications."
        " The delay is the median from publishing to a subscriber's hands, most of it the channel's period."
    )
    for plan in run.plans:
        console.print(
            f"  {plan.stage} by {plan.policy}: {plan.moves} people moved, cov {plan.cov_before:.2f} →"
            f" {plan.cov_after:.2f} expected{_kept(plan)} [dim]({escape(plan.reason)})[/]"
        )
    audit = found.audit
    console.print(
        f"Against the cluster's own results: {audit.expected:,} expected, {audit.lost} lost, {audit.doubled} doubled,"
        f" {audit.reordered} out of order, {audit.misdelivered} for somebody else; {run.totals.migrations:,} moves to"
        f" another broker meanwhile. Runs of channels that outlasted their period: {found.overruns}."
    )
