"""The landing log as a Spark streaming source.

Spark reads it in a Python process beside the driver, one row per frame: the JVM gets whole bodies and cuts them into
records. An offset is a position in the log; a batch ends at a frame's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from tocsin.cluster.feeds.reader import LandingReader
from tocsin.errors import ClusterFailure

_Row = tuple[int, str, bytes]


class LandingSource(DataSource):
    """Options: `directory` of the log, `start` position for a new query, `batch_max_bytes`."""

    @classmethod
    def name(cls) -> str:
        return "tocsin_landing"

    def schema(self) -> str:
        return "position BIGINT, dataset STRING, body BINARY"

    def simpleStreamReader(  # noqa: N802 - Spark's name
        self,
        schema: object,  # noqa: ARG002 - Spark gives it by name
    ) -> SimpleDataSourceStreamReader:
        return LandingStreamReader(
            Path(self.options["directory"]), int(self.options["start"]), int(self.options["batch_max_bytes"])
        )


@dataclass(eq=False)
class LandingStreamReader(SimpleDataSourceStreamReader):
    directory: Path
    start: int
    batch_max_bytes: int
    _opened: LandingReader | None = None

    @property
    def _reader(self) -> LandingReader:
        # Made on first use: this object is pickled for the process that reads.
        if self._opened is None:
            self._opened = LandingReader(self.directory)
        return self._opened

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"position": self.start}

    def read(self, start: dict[str, int]) -> tuple[Iterator[_Row], dict[str, int]]:
        position = int(start["position"])
        frames = self._reader.read_frames(position, None, self.batch_max_bytes)
        end = frames[-1].end if frames else position
        # Spark pickles the iterator: a generator would fail.
        return iter([(frame.position, frame.dataset, frame.body) for frame in frames]), {"position": end}

    def readBetweenOffsets(  # noqa: N802 - Spark's name
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[_Row]:
        first, last = int(start["position"]), int(end["position"])
        frames = self._reader.read_frames(first, last, 1 << 62)
        if (frames[-1].end if frames else first) != last:
            raise ClusterFailure(f"the landing log no longer holds all frames from position {first} to {last}")
        return iter([(frame.position, frame.dataset, frame.body) for frame in frames])
