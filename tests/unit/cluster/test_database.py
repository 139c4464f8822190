"""A catalogue in a database of its own belongs to one data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from databases import Database
from tocsin.cluster.database import check_folder, open_catalogue
from tocsin.errors import InvalidValue


def _folder(path: Path, *tables: str) -> Path:
    path.mkdir()
    for one in tables:
        (path / "datasets" / one).mkdir(parents=True)
    return path


def test_a_catalogue_belongs_to_its_first_folder(database: Database, tmp_path: Path) -> None:
    """A cluster that was given another one's database would take its datasets for empty."""
    engine = open_catalogue(database)
    mine, other = _folder(tmp_path / "mine"), _folder(tmp_path / "other")
    check_folder(engine, mine)
    (mine / "datasets" / "reports").mkdir(parents=True)
    check_folder(engine, mine)
    for _ in range(2):
        with pytest.raises(InvalidValue, match="belongs to another data folder"):
            check_folder(engine, other)
    engine.dispose()


def test_a_folder_with_tables_is_given_no_empty_catalogue(database: Database, tmp_path: Path) -> None:
    """As when somebody moves on from SQLite and hopes that the tables are found."""
    engine = open_catalogue(database)
    with pytest.raises(InvalidValue, match="has tables, and the catalogue there is empty"):
        check_folder(engine, _folder(tmp_path / "used", "reports"))
    check_folder(engine, _folder(tmp_path / "new"))
    engine.dispose()


def test_a_process_that_died_in_between_is_got_over(database: Database, tmp_path: Path) -> None:
    """The folder has an identity, and the catalogue has not stored it yet."""
    engine = open_catalogue(database)
    folder = _folder(tmp_path / "mine")
    (folder / "catalogue-id").write_text("17")
    check_folder(engine, folder)
    check_folder(engine, folder)
    assert (folder / "catalogue-id").read_text() == "17"
    engine.dispose()
