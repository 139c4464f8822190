"""How the Java processes that tests start run: by themselves, in servers and in commands."""

from __future__ import annotations

#: Variables that Spark's launcher reads. With the quick compiler alone: the thorough one pays after minutes of the same
#: work; in a test, which does many things once, it takes the cores from what is tested. The launcher itself runs for a
#: fraction of a second, and needs no threads to collect its garbage.
QUICK_JAVA = {
    "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",
    "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
