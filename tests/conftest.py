"""What all tests share: their order, one Spark session for each process that runs them, and golden files."""

from __future__ import annotations

import gc
import os
import signal
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import settings

from databases import database, postgresql  # noqa: F401 - fixtures
from quick_java import QUICK_JAVA
from worlds.validated import validate_machines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Fastest first: a mistake in pure code is known within seconds, before Spark has started. Whole systems come before
#: single tests with Spark: the longest files are begun first, so that processes end at about the same time.
_ORDER = ("unit", "golden", "property", "integration", "e2e")
_TESTS = Path(__file__).parent

# Compiled loops are kept on disk for the next run. numba looks only at the file that a loop is in, not at those of the
# loops it calls, so a place of their own for every version of them all.
_COMPILED = _TESTS.parent / "src" / "tocsin" / "balancing"
_VERSION = zlib.crc32(b"".join(path.read_bytes() for path in sorted(_COMPILED.rglob("*.py"))))
os.environ.setdefault("NUMBA_CACHE_DIR", str(_TESTS.parent / ".numba_cache" / f"{_VERSION:08x}"))

# Nor does it count how wide the terminal is: two processes are told of one that a single process is not told of.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)

os.environ.update(QUICK_JAVA)

# A shell's background jobs ignore Ctrl-C, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Servers that run inside a test's process log to standard error, as real ones do: a command's output is its own.
structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))

# The same tests for the same code: a change never fails for what somebody else's dice found. `explore` rolls them anew;
# `brief` is a first look, for `make test-unit`.
settings.register_profile("steady", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("brief", settings.get_profile("steady"), max_examples=20, stateful_step_count=25)
settings.register_profile("explore", max_examples=5_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


validate_machines()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files anew instead of comparing")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays until the end: to look through it for garbage, again and again, takes a
    tenth of the time of collecting, and of many a test after it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@cache
def _folder_of(path: Path) -> str:
    return path.relative_to(_TESTS).parts[0] if path.is_relative_to(_TESTS) else ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs Spark and what starts a system, and put the fast tests first."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        if _folder_of(item.path) == "e2e":
            item.add_marker(pytest.mark.system)
        if _folder_of(item.path) == "servers":
            item.add_marker(pytest.mark.servers)

    def rank(item: pytest.Item) -> tuple[bool, bool, int]:
        is_system, has_spark = (item.get_closest_marker(one) is not None for one in ("system", "spark"))
        folder = _folder_of(item.path)
        at = _ORDER.index(folder) if folder in _ORDER else len(_ORDER)
        return (is_system or has_spark, not is_system, -at if is_system else at)

    items.sort(key=rank)  # stable: files and tests keep their order otherwise


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the settings of whoever runs it."""
    for name in list(os.environ):
        if name.startswith("TOCSIN_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests of a process, started as the cluster starts its own. Tests must not stop it."""
    from tocsin.cluster.engine import start_spark
    from tocsin.settings import ClusterSettings

    settings = ClusterSettings(spark_driver_memory="2g")
    session = start_spark(settings, tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """`golden(file, text)` compares `text` with what `file` holds; with --update-golden it writes the file."""

    def compare(file: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            return
        assert file.exists(), f"{file} is not there yet: run once with --update-golden, and read what it wrote"
        assert text == file.read_text(), f"{file} differs: if that is meant, run with --update-golden"

    return compare
