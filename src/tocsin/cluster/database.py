"""The catalogue's database: its tables, beside those of the catalogue itself, and the folder that it belongs to."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

# Some modules are imported only because they add their tables to `metadata`.
from tocsin.cluster.datasets import grants as _grants  # noqa: F401
from tocsin.cluster.datasets import retention as _retention  # noqa: F401
from tocsin.cluster.datasets.catalogue import metadata
from tocsin.cluster.results import incarnations as _incarnations  # noqa: F401
from tocsin.cluster.results import numbering as _numbering  # noqa: F401
from tocsin.cluster.results import removals as _removals  # noqa: F401
from tocsin.cluster.results.backend_subscriptions import counter_table
from tocsin.errors import InvalidValue
from tocsin.runtime.durable_folders import sync_folder
from tocsin.runtime.schema import open_database
from tocsin.runtime.versions import Versions

VERSIONS = Versions("the cluster's catalogue", "catalogue_version", Path(__file__).parent / "migrations")

#: Brokers' holds are looked up in random order; they should be found in memory.
_CACHE_KIB = 65_536
#: The name of the data folder's identity, in the catalogue and in the folder.
_FOLDER = "data folder"
_FOLDER_FILE = "catalogue-id"


def open_catalogue(address: str | Path, on_doubt: Callable[[], None] = lambda: None) -> sa.Engine:
    """`on_doubt` is called when nobody can know any more whether a change is stored."""
    return open_database(address, VERSIONS, metadata, cache_kib=_CACHE_KIB, on_doubt=on_doubt)


def check_folder(engine: sa.Engine, data_dir: Path) -> None:
    """A catalogue outside of the data folder belongs to one folder: its first one. Raises InvalidValue for another one,
    and for a folder with tables that the catalogue does not know."""
    file = data_dir / _FOLDER_FILE
    here = int(file.read_text()) if file.exists() else None
    of_folder = counter_table.c.name == _FOLDER
    with engine.begin() as connection:
        stored = connection.scalar(sa.select(counter_table.c.value).where(of_folder))
        if stored is None and not _has_tables(data_dir):
            if here is None:
                here = secrets.randbits(63)
                _write(file, str(here))
            connection.execute(counter_table.insert().values(name=_FOLDER, value=here))
        elif stored is None:
            raise InvalidValue(f"setting database_url: {data_dir} has tables, and the catalogue there is empty")
        elif stored != here:
            raise InvalidValue(
                f"setting database_url: the catalogue there belongs to another data folder than {data_dir}"
            )


def _has_tables(data_dir: Path) -> bool:
    folders = (data_dir / "datasets", data_dir / "results")
    return any(folder.exists() and any(folder.iterdir()) for folder in folders)


def _write(file: Path, text: str) -> None:
    """Whole or not at all, also through a power cut."""
    aside = file.with_suffix(".new")
    with aside.open("w") as output:
        output.write(text)
        output.flush()
        os.fsync(output.fileno())
    aside.replace(file)
    sync_folder(file.parent)
