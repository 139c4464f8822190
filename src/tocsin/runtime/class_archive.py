"""An archive of the classes that Spark loads: Java maps it into memory instead of reading, checking and laying out some
twenty thousand classes at every start.

This module knows where the archive is and how to pass it to Java; `tocsin prepare` makes it.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

from tocsin.runtime.java import JavaHome

#: Beside the packages whose classes are archived: it is useful only with them, and is removed with them.
_FOLDER = Path(sys.prefix) / "share" / "tocsin"


def archive_of(java: JavaHome, folder: Path = _FOLDER) -> Path:
    """The archive for this Java and the installed Spark, whether it exists or not."""
    return folder / f"spark-{importlib.metadata.version('pyspark')}-java-{java.version}.jsa"


def archive_options(java: JavaHome, folder: Path = _FOLDER) -> list[str]:
    """Options to start Java with. A Java that finds another version's archive says so and continues without it."""
    archive = archive_of(java, folder)
    return [f'"-XX:SharedArchiveFile={archive}"'] if archive.is_file() else []
