"""The catalogue's database: its tables, beside those of the catalogue itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

# Some modules are imported only because they add their tables to `metadata`.
from tocsin.cluster.datasets import grants as _grants  # noqa: F401
from tocsin.cluster.datasets import retention as _retention  # noqa: F401
from tocsin.cluster.datasets.catalogue import metadata
from tocsin.cluster.results import backend_subscriptions as _subscriptions  # noqa: F401
from tocsin.cluster.results import incarnations as _incarnations  # noqa: F401
from tocsin.cluster.results import numbering as _numbering  # noqa: F401
from tocsin.cluster.results import removals as _removals  # noqa: F401
from tocsin.runtime.schema import open_database
from tocsin.runtime.versions import Versions

VERSIONS = Versions("the cluster's catalogue", "catalogue_version", Path(__file__).parent / "migrations")

#: Brokers' holds are looked up in random order; they should be found in memory.
_CACHE_KIB = 65_536


def open_catalogue(address: str | Path, on_doubt: Callable[[], None] = lambda: None) -> sa.Engine:
    """`on_doubt` is called when nobody can know any more whether a change is stored."""
    return open_database(address, VERSIONS, metadata, cache_kib=_CACHE_KIB, on_doubt=on_doubt)
