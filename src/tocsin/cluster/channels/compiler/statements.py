"""One frozen value per statement. `parse` makes them; the server carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tocsin.model.catalogue import Channel, Dataset, Feed
from tocsin.model.grants import Action, Grant
from tocsin.model.schema import Column

#: The values of an INSERT: the literals of SQL. Timestamps and dates are written as strings.
LiteralValue = str | bool | int | float | None


class FileFormat(StrEnum):
    """The formats LOAD DATASET reads."""

    CSV = "csv"
    NDJSON = "ndjson"
    PARQUET = "parquet"


class Kind(StrEnum):
    """The kinds of named things that DESCRIBE and DROP accept."""

    DATASET = "DATASET"
    FEED = "FEED"
    CHANNEL = "CHANNEL"


class Listing(StrEnum):
    """What SHOW lists."""

    DATASETS = "DATASETS"
    FEEDS = "FEEDS"
    CHANNELS = "CHANNELS"
    BROKERS = "BROKERS"
    SUBSCRIPTIONS = "SUBSCRIPTIONS"
    GRANTS = "GRANTS"
    PUBLISHERS = "PUBLISHERS"


@dataclass(frozen=True, slots=True)
class CreateDataset:
    dataset: Dataset
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatasetAddColumn:
    dataset: str
    column: Column
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateFeed:
    feed: Feed
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateChannel:
    channel: Channel
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class AlterChannel:
    """None leaves a property as it is; a retention of 0 stands for DEFAULT."""

    name: str
    period_s: float | None = None
    retention_s: float | None = None


@dataclass(frozen=True, slots=True)
class LoadDataset:
    dataset: str
    path: str
    format: FileFormat


@dataclass(frozen=True, slots=True)
class Insert:
    dataset: str
    #: None means every column of the dataset, in its order.
    columns: tuple[str, ...] | None
    rows: tuple[tuple[LiteralValue, ...], ...]


@dataclass(frozen=True, slots=True)
class Delete:
    dataset: str
    #: As written; only `compile_select` may make its query runnable.
    condition: str

    @property
    def doomed(self) -> str:
        """The query for the rows to delete."""
        return f"{self.opening}{self.condition})"

    @property
    def opening(self) -> str:
        """The text before the condition in `doomed`."""
        return f"SELECT * FROM {self.dataset} WHERE ("

    @property
    def kept(self) -> str:
        """The query for the rows to keep, including those for which the condition is NULL."""
        return f"SELECT * FROM {self.dataset} WHERE NOT coalesce(({self.condition}), FALSE)"


@dataclass(frozen=True, slots=True)
class ForgetPerson:
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A one-off query. `sql` is as written; only `compile_select` may make it runnable."""

    sql: str


@dataclass(frozen=True, slots=True)
class Show:
    listing: Listing
    #: Restricts GRANTS to one channel or feed: the action granted there, and its name.
    on: tuple[Action, str] | None = None


@dataclass(frozen=True, slots=True)
class Describe:
    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class ExplainChannel:
    name: str


@dataclass(frozen=True, slots=True)
class PauseChannel:
    name: str


@dataclass(frozen=True, slots=True)
class ResumeChannel:
    name: str


@dataclass(frozen=True, slots=True)
class Drop:
    kind: Kind
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class GrantTo:
    grant: Grant


@dataclass(frozen=True, slots=True)
class RevokeFrom:
    grant: Grant


@dataclass(frozen=True, slots=True)
class CreatePublisher:
    name: str
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPublisher:
    name: str
    if_exists: bool = False


Statement = (
    CreateDataset
    | AlterDatasetAddColumn
    | CreateFeed
    | CreateChannel
    | AlterChannel
    | LoadDataset
    | Insert
    | Delete
    | ForgetPerson
    | Select
    | Show
    | Describe
    | ExplainChannel
    | PauseChannel
    | ResumeChannel
    | Drop
    | GrantTo
    | RevokeFrom
    | CreatePublisher
    | DropPublisher
)
