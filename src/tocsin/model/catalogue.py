"""Values of the catalogue: datasets, feeds, channels, brokers, backend subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tocsin.model.schema import ColumnType, Schema


class DatasetKind(StrEnum):
    """ACTIVE is append-only and can trigger channels; KEYED keeps the latest row per primary key;
    REFERENCE is loaded as a whole."""

    ACTIVE = "ACTIVE"
    KEYED = "KEYED"
    REFERENCE = "REFERENCE"


class ChannelKind(StrEnum):
    """REPETITIVE channels run every period, CONTINUOUS ones when records arrive."""

    REPETITIVE = "REPETITIVE"
    CONTINUOUS = "CONTINUOUS"


class FeedSource(StrEnum):
    """Where a feed's records come from."""

    HTTP = "HTTP"
    FOLDER = "FOLDER"


@dataclass(frozen=True, slots=True)
class Dataset:
    name: str
    kind: DatasetKind
    schema: Schema


@dataclass(frozen=True, slots=True)
class Feed:
    name: str
    dataset: str
    source: FeedSource
    #: The folder of a FOLDER feed; empty for HTTP.
    location: str = ""


class FilledBy(StrEnum):
    """What the server fills a parameter in with: the connected user's name, or their permission class."""

    USER = "USER"
    CLASS = "CLASS"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A typed parameter of a channel; written `:name` in the channel's body."""

    name: str
    type: ColumnType
    #: For numbers: values from 0 to this are allowed. None allows the whole range of the type.
    maximum: int | float | None = None
    #: None if the subscriber gives the value.
    filled_by: FilledBy | None = None

    def __str__(self) -> str:
        """As in its declaration."""
        declared = f"{self.name} {self.type}" + (f" MAX {self.maximum}" if self.maximum is not None else "")
        return declared + (f" IS {self.filled_by}" if self.filled_by is not None else "")


@dataclass(frozen=True, slots=True)
class OncePer:
    """Of one subscription's results with equal keys, only the first is a result."""

    #: The expressions of the key, as their author wrote them.
    keys: str
    #: Seconds after which the same key may be a result again; None if never.
    within_s: float | None = None
    #: A result that no longer holds is followed by an exit, and its key may be a result again.
    with_exits: bool = False

    def __str__(self) -> str:
        """As in its declaration, in seconds.

        >>> str(OncePer("r.id", 60.0)), str(OncePer("r.id, r.zone", with_exits=True))
        ('ONCE PER (r.id) WITHIN 60 SECONDS', 'ONCE PER (r.id, r.zone) WITH EXITS')
        """
        within = "" if self.within_s is None else f" WITHIN {self.within_s:.16g} SECONDS"
        return f"ONCE PER ({self.keys}){within}{' WITH EXITS' if self.with_exits else ''}"


@dataclass(frozen=True, slots=True)
class Channel:
    name: str
    kind: ChannelKind
    parameters: tuple[Parameter, ...]
    #: The body as its author wrote it.
    body: str
    #: Seconds between runs; None for continuous channels.
    period_s: float | None = None
    once: OncePer | None = None
    #: How long its results are kept; None for as long as the cluster keeps results.
    retention_s: float | None = None
    #: WITH SNAPSHOT: whoever subscribes gets what holds now, and then what is new.
    snapshot: bool = False

    @property
    def filled(self) -> dict[str, FilledBy]:
        """The parameters that the server fills in, and with what."""
        return {one.name: one.filled_by for one in self.parameters if one.filled_by is not None}


#: A parameter value on the wire: JSON's scalars. Timestamps and dates are ISO 8601 strings.
ParameterValue = str | bool | int | float


@dataclass(frozen=True, slots=True)
class BackendSubscription:
    """A distinct (channel, parameter values, permission class), shared by all subscribers with the same key.

    `id` is never used again after the last broker has released it: it is also the epoch of its positions.
    """

    id: int
    channel: str
    values: tuple[ParameterValue, ...]
    permission: str = ""
