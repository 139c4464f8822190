"""How the Java process of a test's cluster runs."""

from __future__ import annotations

#: With the quick compiler alone. The thorough one pays after minutes of the same work; in a test, which does many
#: things once, it takes the cores from what is tested.
QUICK_JAVA = {"spark_java_options": "-XX:TieredStopAtLevel=1"}
