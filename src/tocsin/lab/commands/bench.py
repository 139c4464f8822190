"""`tocsin bench`: the figures we promise, each beside a peer measured in the same run."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from tocsin.cli.terminal import AsJson, end_on_sigterm, out, print_json

app = typer.Typer(help="Measure: each figure beside a peer, in the same run.", no_args_is_help=True)

Seed = Annotated[int, typer.Option(help="The same seed makes the same workload.")]


@app.callback()
def bench() -> None:
    end_on_sigterm()


@app.command()
def channels(
    seed: Seed = 0,
    subscriptions: Annotated[int, typer.Option(help="Distinct subscriptions of the first part.")] = 1_000_000,
    largest: Annotated[int, typer.Option(help="Stop doubling here.")] = 32_000_000,
    churn_subscriptions: Annotated[
        int, typer.Option(help="Subscriptions of the part in which new ones arrive; 0 leaves it out.")
    ] = 10_000_000,
    churn_s: Annotated[int, typer.Option(help="Seconds in which new subscriptions arrive.")] = 120,
    as_json: AsJson = False,
) -> None:
    """Run time of a channel with a million distinct subscriptions, and of a near-query, beside joins by hand; and how
    long new subscriptions wait while a channel with ten million runs."""
    from tocsin.lab.benchmarks.channels import run

    _print(run(seed, subscriptions, largest, churn_subscriptions, churn_s), as_json)


@app.command()
def once(
    subscriptions: Annotated[int, typer.Option(help="Subscriptions; each record is for all of them.")] = 1_000_000,
    remembered: Annotated[int, typer.Option(help="Results that ONCE PER remembers.")] = 10_000_000,
    as_json: AsJson = False,
) -> None:
    """Run time of a channel with ONCE PER that remembers ten million results, beside the same channel without it; and
    the CPU that a channel WITH EXITS takes, beside one without them."""
    from tocsin.lab.benchmarks.once import run

    _print(run(subscriptions, remembered), as_json)


@app.command()
def latency(
    seed: Seed = 0,
    subscriptions: Annotated[int, typer.Option(help="Backend subscriptions of the channel.")] = 100_000,
    rate_per_s: Annotated[int, typer.Option(help="Records a second, one per request.")] = 100,
    warm_s: Annotated[float, typer.Option(help="Seconds before measuring begins.")] = 60.0,
    measure_s: Annotated[float, typer.Option(help="Seconds measured.")] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Publish over HTTP to committed result, continuous channel; beside a bare Structured Streaming query."""
    from tocsin.lab.benchmarks.latency import run

    _print(run(seed, subscriptions, rate_per_s, warm_s, measure_s), as_json)


@app.command()
def ingest(
    seed: Seed = 0,
    subscriptions: Annotated[int, typer.Option(help="Backend subscriptions of the attached channel.")] = 100_000,
    warm_s: Annotated[float, typer.Option(help="Seconds before measuring begins.")] = 30.0,
    measure_s: Annotated[float, typer.Option(help="Seconds measured, each part.")] = 20.0,
    as_json: AsJson = False,
) -> None:
    """Records a second over HTTP, acknowledged and in the table; beside a bare Spark job loading a file."""
    from tocsin.lab.benchmarks.ingest import run

    _print(run(seed, subscriptions, warm_s, measure_s), as_json)


@app.command()
def idle(
    channels: Annotated[int, typer.Option(help="Channels, half of them repetitive every second.")] = 50,
    settle_s: Annotated[float, typer.Option(help="Seconds before measuring begins.")] = 30.0,
    measure_s: Annotated[float, typer.Option(help="Seconds measured.")] = 30.0,
    as_json: AsJson = False,
) -> None:
    """CPU of a cluster that has nothing to do, and the time until it serves; beside an idle bare Spark."""
    from tocsin.lab.benchmarks.idle import run

    _print(run(channels, settle_s, measure_s), as_json)


@app.command()
def fanout(
    subscribers: Annotated[int, typer.Option(help="Subscribers, all of them subscribed to everything.")] = 1000,
    subscriptions: Annotated[int, typer.Option(help="Backend subscriptions, each with a result per execution.")] = 20,
    executions_per_s: Annotated[float, typer.Option(help="The pace, for all three servers.")] = 3.0,
    rounds: Annotated[int, typer.Option(help="Rounds, in which the servers take turns.")] = 3,
    round_s: Annotated[float, typer.Option(help="Seconds measured, each round.")] = 10.0,
    warm_s: Annotated[float, typer.Option(help="Seconds before measuring begins.")] = 15.0,
    idle_connections: Annotated[int, typer.Option(help="Connections of the last part; 0 leaves it out.")] = 10_000,
    as_json: AsJson = False,
) -> None:
    """Deliveries per CPU-second of a broker, and memory per idle connection; beside nats-server and Mosquitto."""
    from tocsin.lab.benchmarks.fanout import run

    _print(
        run(subscribers, subscriptions, executions_per_s, rounds, round_s, warm_s, idle_connections),
        as_json,
    )


@app.command(name="end-to-end")
def end_to_end(
    seed: Seed = 0,
    brokers: Annotated[int, typer.Option(help="Brokers that the subscribers are placed at.")] = 3,
    subscribers: Annotated[int, typer.Option(help="Subscribers, each with one topic.")] = 1000,
    topics: Annotated[int, typer.Option(help="Topics; each record has one.")] = 100,
    rate_per_s: Annotated[int, typer.Option(help="Records a second, one per request.")] = 100,
    warm_s: Annotated[float, typer.Option(help="Seconds before measuring begins.")] = 60.0,
    measure_s: Annotated[float, typer.Option(help="Seconds measured.")] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Publish over HTTP to received by subscribers of three brokers; beside a broker that only pulls."""
    from tocsin.lab.benchmarks.end_to_end import run

    _print(run(seed, brokers, subscribers, topics, rate_per_s, warm_s, measure_s), as_json)


@app.command()
def balance(
    seed: Seed = 0,
    largest: Annotated[int, typer.Option(help="Subscribers of the last part.", min=1000)] = 1_000_000,
    as_json: AsJson = False,
) -> None:
    """How close plans come to the lower bound, and how long they take; beside the paper's policies."""
    from tocsin.lab.benchmarks.balance import run

    _print(run(seed, largest), as_json)


@app.command()
def migration(
    brokers: Annotated[int, typer.Option(help="Brokers; all subscribers begin at the first.", min=2)] = 3,
    subscribers: Annotated[int, typer.Option(help="Programs that use the SDK, each with a topic.")] = 2000,
    moves: Annotated[int, typer.Option(help="Moves of the plan.")] = 1000,
    topics: Annotated[int, typer.Option(help="Topics; each has a record every other second.")] = 20,
    warm_s: Annotated[float, typer.Option(help="Seconds before the plan is made.")] = 30.0,
    as_json: AsJson = False,
) -> None:
    """What subscribers notice of a move under load; beside a lost connection and a new one to another broker."""
    from tocsin.lab.benchmarks.migration import run

    _print(run(brokers, subscribers, moves, topics, warm_s), as_json)


@app.command()
def rebalance(
    seed: Seed = 0,
    brokers: Annotated[int, typer.Option(help="Brokers, in a row.", min=2, max=5)] = 5,
    subscribers: Annotated[int, typer.Option(help="Programs that use the SDK, half of them near the first.")] = 2000,
    topics: Annotated[int, typer.Option(help="Topics; each has a record every other second.")] = 60,
    warm_s: Annotated[float, typer.Option(help="Seconds before balancing is switched on.")] = 40.0,
    watch_s: Annotated[
        float, typer.Option(help="Seconds after the load is even, in which no subscriber should move.")
    ] = 60.0,
    only_living: Annotated[
        bool, typer.Option("--only-living", help="Only the living city: no network is started.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """How balancing evens out a skewed crowd, measured, beside the same network before balancing is switched on; then a
    living city in the simulator, beside the paper's rule."""
    if only_living:
        from tocsin.lab.benchmarks import living_city

        _print({"benchmark": "rebalance", "living": living_city.run()}, as_json)
        return
    from tocsin.lab.benchmarks.rebalance import run

    _print(run(seed, brokers, subscribers, topics, warm_s, watch_s), as_json)


@app.command()
def filters(
    seed: Seed = 0,
    records: Annotated[
        int, typer.Option(help="Records of 400 bytes, matched against 1,000 to 100,000 filters.")
    ] = 2000,
    covered: Annotated[int, typer.Option(help="Filters of the part about covering.")] = 10_000,
    compared: Annotated[
        int, typer.Option(help="So many of these are compared each with each; all take minutes.")
    ] = 2000,
    as_json: AsJson = False,
) -> None:
    """Records matched against filters for each second of CPU, and covering; beside all predicates in numpy, and CEL."""
    from tocsin.lab.benchmarks.filters import run

    _print(run(seed, records, covered, compared), as_json)


def _print(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    for name, value in report.items():
        out.print(f"{name:32} {json.dumps(value) if isinstance(value, dict) else value}", markup=False)
