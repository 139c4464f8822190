"""The functions that a query may call."""

from __future__ import annotations

import re
from pathlib import Path

from tocsin.cluster.channels.compiler import functions


def test_no_function_that_reaches_out_is_allowed() -> None:
    """The allow-list holds none of the functions known to be dangerous or not repeatable."""
    dangerous = """
        reflect java_method try_reflect input_file_name current_user session_user user version uuid rand randn random
        now current_timestamp current_date localtimestamp spark_partition_id monotonically_increasing_id assert_true
        raise_error read_files from_csv from_json schema_of_json schema_of_csv xpath sequence repeat space array_repeat
        explode inline stack sql identifier getdatabase current_database current_catalog shuffle regexp_replace split
    """
    assert not functions.ALLOWED & set(dangerous.split())


def test_the_reference_lists_every_function() -> None:
    """docs/reference/statements.md names exactly the functions that are allowed."""
    page = (Path(__file__).parents[5] / "docs" / "reference" / "statements.md").read_text()
    table = page.partition("### Functions")[2]
    listed = {name for line in table.splitlines() if line.startswith("|") for name in re.findall(r"`(\w+)`", line)}
    assert listed - {"OVER"} == functions.ALLOWED
