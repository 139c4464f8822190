"""An archive of the classes that Spark loads: Java maps it into memory instead of reading, checking and laying out some
twenty thousand classes anew at every start.

Owns where it lies and how Java is told; `tocsin prepare` makes it.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

from tocsin.runtime.java import JavaHome

#: Beside the packages whose classes are archived: it is of use with them alone, and goes when they go.
_FOLDER = Path(sys.prefix) / "share" / "tocsin"


def archive_of(java: JavaHome, folder: Path = _FOLDER) -> Path:
    """The archive for this Java and the Spark that is installed, whether there is one or not."""
    return folder / f"spark-{importlib.metadata.version('pyspark')}-java-{java.version}.jsa"


def archive_options(java: JavaHome, folder: Path = _FOLDER) -> list[str]:
    """What to start Java with. One that finds that the archive is not its own says so and goes on without."""
    archive = archive_of(java, folder)
    return [f'"-XX:SharedArchiveFile={archive}"'] if archive.is_file() else []
