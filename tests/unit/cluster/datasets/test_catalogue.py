"""The catalogue: what exists survives the process, and a change happens whole or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from databases import Database
from tocsin.cluster.database import open_catalogue
from tocsin.cluster.datasets.catalogue import Catalogue
from tocsin.errors import AlreadyExists, InUse, NotFound
from tocsin.model.catalogue import Channel, ChannelKind, Dataset, DatasetKind, Feed, FeedSource, FilledBy, Parameter
from tocsin.model.schema import Column, ColumnType, ResultColumn, Schema
from tocsin.runtime.schema import open_engine

_DATASET = Dataset("Reports", DatasetKind.ACTIVE, Schema((Column("id", ColumnType.STRING, nullable=False),), ("id",)))
_FEED = Feed("reports", "Reports", FeedSource.FOLDER, "/in")
_CHANNEL = Channel(
    "Wake",
    ChannelKind.REPETITIVE,
    (
        Parameter("k", ColumnType.INT),
        Parameter("r", ColumnType.DOUBLE, 500.0),
        Parameter("u", ColumnType.STRING, filled_by=FilledBy.USER),
    ),
    "SELECT 1",
    0.5,
)


@pytest.fixture
def catalogue(database: Database) -> Catalogue:
    found = Catalogue(open_catalogue(database))
    found.add_dataset(_DATASET)
    found.add_feed(_FEED)
    found.add_channel(_CHANNEL)
    return found


def test_what_is_there_survives(catalogue: Catalogue, database: Database) -> None:
    """Opened again, the catalogue has the very same values."""
    again = Catalogue(open_catalogue(database))
    assert (again.dataset("reports"), again.feed("REPORTS"), again.channel("wake")) == (_DATASET, _FEED, _CHANNEL)
    grown = Dataset("Reports", _DATASET.kind, _DATASET.schema.with_column(Column("n", ColumnType.INT)))
    again.alter_dataset(grown)
    assert Catalogue(open_catalogue(database)).dataset("Reports") == grown


def test_names_are_taken_once_whatever_their_case(catalogue: Catalogue) -> None:
    """A name is taken in any case."""
    with pytest.raises(AlreadyExists, match="dataset Reports"):
        catalogue.add_dataset(Dataset("REPORTS", DatasetKind.KEYED, _DATASET.schema))
    with pytest.raises(AlreadyExists, match="feed reports"):
        catalogue.add_feed(Feed("Reports", "Reports", FeedSource.HTTP))
    with pytest.raises(AlreadyExists, match="channel Wake"):
        catalogue.add_channel(Channel("WAKE", ChannelKind.CONTINUOUS, (), "SELECT 1"))


def test_what_is_used_stays(catalogue: Catalogue) -> None:
    """A dataset that a feed or channel needs can't go; the error names them all."""
    with pytest.raises(InUse, match="feed reports, channel Wake"):
        catalogue.drop_dataset("reports", ["Wake"])
    catalogue.drop_feed("REPORTS")
    catalogue.drop_channel("WAKE")
    assert catalogue.drop_dataset("REPORTS", []) == _DATASET
    assert not catalogue.datasets
    assert not catalogue.feeds
    assert not catalogue.channels


def test_what_is_missing_is_told_with_what_there_is(catalogue: Catalogue) -> None:
    """An unknown name is an error that lists the known ones."""
    with pytest.raises(NotFound, match="no dataset called Nowhere; there are: Reports"):
        catalogue.dataset("Nowhere")
    for drop in (catalogue.drop_feed, catalogue.drop_channel):
        with pytest.raises(NotFound):
            drop("Nowhere")


def test_a_change_that_the_database_refuses_did_not_happen(catalogue: Catalogue, database: Database) -> None:
    """Memory and database never disagree: if the write fails, the value is in neither."""
    other = open_engine(database)
    with other.begin() as connection:
        connection.execute(
            sa.text("INSERT INTO channel VALUES ('taken', 'Taken', 'CONTINUOUS', '[]', 'x', NULL, NULL, NULL, FALSE)")
        )
    other.dispose()
    with pytest.raises(sa.exc.IntegrityError):
        catalogue.add_channel(Channel("Taken", ChannelKind.CONTINUOUS, (), "SELECT 1"))
    assert "taken" not in catalogue.channels


def test_an_altered_channel_survives(catalogue: Catalogue, database: Database) -> None:
    """Its new values take the place of the old ones, and what it is paused for stays."""
    catalogue.pause_channel("Wake", "too much fails")
    altered = replace(_CHANNEL, retention_s=7200.0)
    catalogue.alter_channel(altered)
    for found in (catalogue, Catalogue(open_catalogue(database))):
        assert found.channel("wake") == altered
        assert found.pause_reason("wake") == "too much fails"
    with pytest.raises(NotFound, match="no channel called Nowhere"):
        catalogue.alter_channel(replace(_CHANNEL, name="Nowhere"))


def test_a_pause_survives_and_goes_with_the_channel(catalogue: Catalogue, database: Database) -> None:
    """Pausing is durable, tells whether it changed anything, and a later channel of the name knows nothing of it."""
    assert not catalogue.is_paused("Wake")
    assert catalogue.pause_channel("WAKE")
    assert not catalogue.pause_channel("Wake")
    again = Catalogue(open_catalogue(database))
    assert again.is_paused("wake")
    assert again.resume_channel("Wake")
    assert not again.resume_channel("wake")
    assert not Catalogue(open_catalogue(database)).is_paused("Wake")
    again.pause_channel("Wake")
    again.drop_channel("Wake")
    again.add_channel(_CHANNEL)
    assert not again.is_paused("Wake")
    assert not Catalogue(open_catalogue(database)).is_paused("Wake")
    for change in (again.pause_channel, again.resume_channel):
        with pytest.raises(NotFound, match="no channel called Nowhere; there are: Wake"):
            change("Nowhere")


def test_why_a_channel_was_paused_is_kept(catalogue: Catalogue, database: Database) -> None:
    """The reason of a pause that nobody asked for survives, and goes with the pause."""
    catalogue.pause_channel("Wake", "100 records in a row failed")
    again = Catalogue(open_catalogue(database))
    assert again.pause_reason("WAKE") == "100 records in a row failed"
    again.resume_channel("Wake")
    again.pause_channel("Wake")
    assert again.pause_reason("Wake") == Catalogue(open_catalogue(database)).pause_reason("Wake") == ""


def test_a_pause_that_the_database_refuses_did_not_happen(catalogue: Catalogue, database: Database) -> None:
    """If the write fails, the channel is not paused in memory either."""
    other = open_engine(database)
    with other.begin() as connection:
        connection.execute(sa.text("INSERT INTO paused_channel VALUES ('wake', '')"))
    other.dispose()
    with pytest.raises(sa.exc.IntegrityError):
        catalogue.pause_channel("Wake")
    assert not catalogue.is_paused("Wake")


def test_the_columns_of_results_survive_and_go_with_their_channel(catalogue: Catalogue, database: Database) -> None:
    """A version tells when they change; a change that is refused leaves them, and an altered channel keeps them."""
    columns = (ResultColumn("id", "STRING"), ResultColumn("total", "DECIMAL(10,2)"))
    version = catalogue.columns_version
    catalogue.set_result_columns("wake", columns)
    catalogue.set_result_columns("WAKE", columns)
    assert catalogue.columns_version == version + 1
    again = Catalogue(open_catalogue(database))
    assert again.result_columns("Wake") == columns
    again.alter_channel(_CHANNEL)
    assert again.result_columns("Wake") == columns
    with pytest.raises(AlreadyExists):
        again.add_channel(_CHANNEL, ())
    again.drop_channel("WAKE")
    assert again.result_columns("Wake") == ()
    assert Catalogue(open_catalogue(database)).result_columns("Wake") == ()
