"""Settings: the sole reader of configuration files and environment variables.

Later sources win: the defaults below, then a TOML file, then `TOCSIN_*` variables, then the command line. Every setting
has one name: `feed_max_pending_bytes` in TOML and code, `TOCSIN_CLUSTER_FEED_MAX_PENDING_BYTES` in the environment,
`--feed-max-pending-bytes` if a command offers it.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from tocsin.errors import InvalidValue
from tocsin.variables import check_variables, variable_of


@dataclass(frozen=True, slots=True)
class Settings:
    """Shared by all processes' settings: where they come from."""

    #: The process's own table in the TOML file.
    TABLE: ClassVar[str]

    @classmethod
    def load(
        cls,
        file: Path | None = None,
        environment: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> Self:
        """Settings from a TOML file's table, the environment and `overrides`, in that order.

        >>> ClusterSettings.load(environment={"TOCSIN_CLUSTER_PORT": "9000"}).port
        9000
        """
        environment = os.environ if environment is None else environment
        check_environment(environment)
        fields = {field.name: field for field in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        if file is not None:
            values |= _convert_all(_table(file, cls.TABLE, fields), fields, lambda name: f"{file}: setting {name}")
        given = {name: environment[key] for name in fields if (key := variable_of(cls.TABLE, name)) in environment}
        values |= _convert_all(given, fields, lambda name: f"environment variable {variable_of(cls.TABLE, name)}")
        chosen = {name: value for name, value in (overrides or {}).items() if value is not None}
        return cls(**values | _convert_all(chosen, fields, lambda name: f"setting {name}"))


def check_environment(environment: Mapping[str, str] | None = None) -> None:
    """Raises InvalidValue for a `TOCSIN_*` variable that nothing reads: it is probably a mistake."""
    names = os.environ if environment is None else environment
    check_variables(names, {kind.TABLE: [field.name for field in dataclasses.fields(kind)] for kind in _KINDS})


def _table(file: Path, title: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A process's own table of a TOML file, which may have tables for processes only."""
    try:
        tables = tomllib.loads(file.read_text())
    except OSError as exc:
        raise InvalidValue(f"{file}: {exc.strerror}") from exc
    except ValueError as exc:  # Neither UTF-8 nor TOML; both errors say where.
        raise InvalidValue(f"{file}: {exc}") from exc
    titles = [kind.TABLE for kind in _KINDS]
    if unknown := sorted(set(tables) - set(titles)):
        raise InvalidValue(f"{file}: unknown tables {', '.join(unknown)}; known: {', '.join(titles)}")
    table = tables.get(title, {})
    if not isinstance(table, dict):
        raise InvalidValue(f"{file}: {title} is not a table; write [{title}] above its settings")
    if unknown := sorted(set(table) - set(fields)):
        known = ", ".join(sorted(fields))
        raise InvalidValue(f"{file}: unknown settings {', '.join(unknown)}; known: {known}")
    return table


@dataclass(frozen=True, slots=True)
class ClusterSettings(Settings):
    """How one data cluster runs. Sizes are in bytes, times in seconds."""

    TABLE = "cluster"

    #: The folder of everything durable; removing it removes all data of the cluster.
    data_dir: Path = Path("data")
    #: The catalogue's database, such as postgresql://user@host/name; empty: SQLite inside data_dir.
    database_url: str = ""
    host: str = "127.0.0.1"
    port: int = 8600
    #: The bearer token of operators. Empty: everybody who reaches the port is trusted as an operator.
    api_token: str = ""
    #: The bearer token of brokers, the same at the coordinator and at brokers. It allows what brokers do.
    broker_token: str = ""
    #: The feed that brokers may publish subscribers' locations to; empty: to none, if there is an api_token.
    locations_feed: str = ""
    #: Allows a `host` that other machines can reach even without an api_token.
    open_to_network: bool = False
    #: Whether a new channel is granted to all permission classes, or to none until an operator grants it.
    channels_open: bool = True
    #: Spark master; `local[*]` runs Spark inside this process's JVM.
    spark_master: str = "local[*]"
    #: Heap of the driver's JVM. 4 GB holds about 20 million subscriptions.
    spark_driver_memory: str = "4g"
    #: More options for the driver's JVM, after Tocsin's own.
    spark_java_options: str = ""
    #: Where subscriptions and keyed snapshots are handed to Spark; memory-backed if possible. Empty: /dev/shm if it
    #: exists, otherwise inside data_dir. The process makes a folder of its own in it.
    scratch_dir: str = ""
    #: LOAD and FOLDER feeds may read only below these; `imports` inside data_dir is always allowed.
    import_folders: tuple[Path, ...] = ()

    #: Bytes accepted but not yet committed to tables before publishers are told to wait.
    feed_max_pending_bytes: int = 64 << 20
    #: Largest body of one publish request.
    feed_max_body_bytes: int = 8 << 20
    #: Largest single record; larger ones are dead-lettered.
    feed_max_record_bytes: int = 1 << 20
    #: How long an idempotency key is remembered.
    idempotency_retention_s: float = 24 * 3600
    #: A landing-log segment ends at this size, and is removed once its records are in tables.
    landing_segment_bytes: int = 64 << 20
    #: Most bytes one micro-batch takes from the landing log; larger batches cost latency, not throughput.
    batch_max_bytes: int = 16 << 20
    #: How long the idle stream waits before it looks again; measured: no latency cost under load.
    polling_delay_ms: int = 50
    #: After a start, Spark is warmed up with made-up work for no longer than this. Meanwhile records are taken in, but
    #: share the cores with it. 0: not at all, and the first records are slower.
    warm_up_max_s: float = 10

    #: Recent rows of each dataset, and recent results, kept in memory so that windows and pulls seldom touch disk.
    recent_rows_max_bytes: int = 128 << 20
    recent_results_max_bytes: int = 128 << 20
    #: Small files are merged after this many commits; append cost grows with files.
    compact_every_commits: int = 200
    #: Active rows older than this are removed; 0 keeps everything.
    dataset_retention_s: float = 0
    #: Results are kept this long, and at most this many bytes of them.
    result_retention_s: float = 7 * 24 * 3600
    result_retention_bytes: int = 10 << 30
    #: Keys that ONCE PER remembers, over all channels; beyond it the oldest are forgotten. A key takes 32 bytes of
    #: memory that the system can take back, and as much on disk.
    result_keys_max: int = 100_000_000
    #: How many results a snapshot has for each subscription; its end says whether there were more.
    snapshot_max_rows: int = 1000
    #: The limits of a plain SELECT, in rows and seconds.
    select_max_rows: int = 1000
    select_timeout_s: float = 60
    #: Channel runs at the same time.
    channel_concurrency: int = 2
    #: How long a run may take; records or subscriptions that make it take longer are found and set aside.
    channel_run_timeout_s: float = 30
    #: Largest single result; a record with a larger one is set aside.
    result_max_bytes: int = 1 << 20
    #: The bytes of results that a run hands over at once; more are handed over in parts. 0: a sixth of the driver's
    #: memory, since Spark holds results up to three times while it hands them over.
    run_max_bytes: int = 0
    log_level: str = "info"


@dataclass(frozen=True, slots=True)
class CoordinatorSettings(Settings):
    """How the coordinator runs. Times are in seconds."""

    TABLE = "coordinator"

    #: The folder of its database and its signing key.
    data_dir: Path = Path("data/coordinator")
    #: Its database, such as postgresql://user@host/name; empty: SQLite inside data_dir.
    database_url: str = ""
    host: str = "127.0.0.1"
    port: int = 8500
    #: The bearer token of operators. Empty: everybody who reaches the port is trusted as an operator.
    api_token: str = ""
    #: The bearer token of brokers, the same at the cluster and at brokers. It allows what brokers do.
    broker_token: str = ""
    #: Allows a `host` that other machines can reach even without an api_token.
    open_to_network: bool = False
    #: The bearer token of viewers, who may see everything and change nothing. Empty: there is no such role.
    viewer_token: str = ""
    #: The data cluster, which the dashboard shows and whose channels it can pause; empty: the dashboard leaves it out.
    cluster_url: str = ""
    cluster_token: str = ""
    #: A file of LINESTRINGs (WKT, one per line, in metres), drawn below the dashboard's map.
    map_roads: str = ""
    #: Whether anybody may register as a user, or operators only.
    open_registration: bool = True
    #: How long a user's token is valid.
    token_lifetime_s: float = 24 * 3600
    #: The initial placement policy: nearest, nearest-network, round-robin, random, least-resulting-load. A live change
    #: is stored and takes precedence.
    placement: str = "least-resulting-load"
    #: The interval of brokers' heartbeats, and the silence after which a broker is dead.
    heartbeat_every_s: float = 1
    dead_after_s: float = 5
    #: If more than this part of the brokers falls silent at once, the fault is more likely here than there: no
    #: subscriber is placed elsewhere.
    mass_outage: float = 0.5
    #: Backend subscriptions' rates: lasting (what is to be expected of each in the next minutes) or window (what came
    #: in the last window, as in the paper).
    rates: str = "lasting"
    #: Backend subscriptions' rates are averaged over this time; best a multiple of all channels' periods.
    rates_window_s: float = 60
    #: For carrying out a plan: moves under way at once, and moves begun each second, from each broker and to each
    #: broker.
    moves_in_flight: int = 100
    moves_per_s: float = 50
    tls_certificate: str = ""
    tls_key: str = ""
    log_level: str = "info"


@dataclass(frozen=True, slots=True)
class BrokerSettings(Settings):
    """How one broker runs. Sizes are in bytes, times in seconds."""

    TABLE = "broker"

    #: The cluster and the coordinator know the broker by this name.
    name: str = "broker-1"
    #: The folder of its subscribers' subscriptions and positions.
    data_dir: Path = Path("data/broker-1")
    host: str = "127.0.0.1"
    port: int = 8700
    #: Its address for subscribers, if that is not host and port.
    url: str = ""
    #: Its location, in metres, as "x,y"; empty: none.
    location: str = ""
    #: Its capacity, relative to other brokers.
    capacity: float = 1.0
    #: The feed for subscribers' locations, as records of user_id, x and y; empty: they are not published.
    locations_feed: str = ""
    cluster_url: str = "http://127.0.0.1:8600"
    coordinator_url: str = "http://127.0.0.1:8500"
    #: The broker_token of both, if they have an api_token.
    broker_token: str = ""
    #: Pages from these origins may connect from a browser; the broker's own address always may.
    allowed_origins: tuple[str, ...] = ()
    tls_certificate: str = ""
    tls_key: str = ""

    #: Largest message from a subscriber.
    max_message_bytes: int = 64 << 10
    #: WebSocket frames per second that a connection may send on average, pings included, and at once.
    max_messages_per_s: float = 50
    max_message_burst: int = 1000
    #: Connections that have not shown a valid token yet, in all and from one address. Behind a proxy all have one
    #: address.
    max_strangers: int = 2000
    max_strangers_per_address: int = 1000
    max_connections: int = 20_000
    max_connections_per_user: int = 20
    max_subscriptions_per_user: int = 1000
    #: Subscriptions of one session that may have a filter, and characters that a filter may have.
    max_filters_per_session: int = 100
    max_filter_characters: int = 4096
    #: Sessions of one user that are kept here, connected or not.
    max_sessions_per_user: int = 100
    #: The bytes that may wait to be sent to one subscriber. Above it, the subscriber is parked until it has read.
    max_queued_bytes: int = 256 << 10
    #: A subscriber that is parked for this long is disconnected; it can come back and carry on.
    slow_after_s: float = 10
    #: A connection must send its request within this time, and then a hello within the same time.
    hello_timeout_s: float = 10
    #: A connection that has sent nothing for this long is pinged, and closed if it does not answer.
    idle_after_s: float = 60
    #: Recent results kept in memory, and which are dropped first: lru, ttl, least-subscribers-left.
    cache_max_bytes: int = 64 << 20
    cache_policy: str = "lru"
    cache_ttl_s: float = 600
    #: Subscriptions of an absent device are kept this long; those of a nameless one, this long.
    device_retention_s: float = 7 * 24 * 3600
    nameless_retention_s: float = 60
    #: On SIGTERM: within this time all subscribers are moved to other brokers, and the process ends.
    drain_timeout_s: float = 20
    log_level: str = "info"


#: The settings of each kind of process.
_KINDS: tuple[type[Settings], ...] = (ClusterSettings, CoordinatorSettings, BrokerSettings)


def _convert_all(
    values: Mapping[str, Any], fields: Mapping[str, dataclasses.Field[Any]], title: Callable[[str], str]
) -> dict[str, Any]:
    """Values in their settings' types; errors call a setting `title`."""
    return {name: _convert(title(name), value, fields[name]) for name, value in values.items()}


def _convert(title: str, value: Any, field: dataclasses.Field[Any]) -> Any:
    kinds: dict[Any, type] = {"int": int, "float": float, "str": str, "Path": Path}
    try:
        if isinstance(field.default, tuple):
            return _convert_list(field.name, value)
        if field.type == "bool":
            return value if isinstance(value, bool) else {"true": True, "false": False}[str(value).lower()]
        return kinds[field.type](value)
    except (KeyError, TypeError, ValueError) as exc:
        raise InvalidValue(f"{title}: {value!r} is not a {field.type}") from exc


def _convert_list(name: str, value: Any) -> tuple[Any, ...]:
    """Folders are separated as on PATH; other values, which may contain colons, by commas."""
    folders = name.endswith("_folders")
    parts = value.split(os.pathsep if folders else ",") if isinstance(value, str) else value
    return tuple(Path(part) if folders else str(part).strip() for part in parts if str(part).strip())
