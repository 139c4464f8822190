"""The forms of times and dates that are taken, and the words for all others."""

from __future__ import annotations

import re

import pytest

from tocsin.model.times import parse_date, parse_time

TAKEN = {
    "2026-01-02T03:04:05Z": "2026-01-02T03:04:05+00:00",
    "2026-01-02 03:04:05.678901+02:00": "2026-01-02T01:04:05.678901+00:00",
    "2026-01-02T03:04:05.123456789Z": "2026-01-02T03:04:05.123456+00:00",
    "2026-01-02T03:04:05-08": "2026-01-02T11:04:05+00:00",
    "1900-01-01T00:00:00Z": "1900-01-01T00:00:00+00:00",
    "2200-12-31T23:59:59.999999Z": "2200-12-31T23:59:59.999999+00:00",
    "2024-02-29T12:00:00+14:00": "2024-02-28T22:00:00+00:00",
    "2026-01-02T03:04:05+18:00": "2026-01-01T09:04:05+00:00",
    "2026-01-02T03:04:05-00:00": "2026-01-02T03:04:05+00:00",
}
REFUSED = {
    1794816000000: "expected an ISO 8601 time with its offset",
    1794816000: "expected an ISO 8601 time with its offset",
    True: "expected an ISO 8601 time",
    "2026-01-02T03:04:05": "expected a time with its offset, such as Z or +02:00 at its end",
    "2026-01-02 03:04:05.5": "expected a time with its offset",
    "2026-01-02T03:04Z": "expected an ISO 8601 time",
    "2026-01-02": "expected an ISO 8601 time",
    "1794816000": "expected an ISO 8601 time",
    "yesterday": "expected an ISO 8601 time",
    "": "expected an ISO 8601 time",
    "2026-01-02T03:04:05Z ": "expected an ISO 8601 time",
    "2026-1-2T03:04:05Z": "expected an ISO 8601 time",
    "2026-01-02T03:04:05 Europe/Paris": "expected an ISO 8601 time",
    "2026-02-30T03:04:05Z": "expected a day and a time of day that exist",
    "2026-01-02T25:04:05Z": "expected a day and a time of day that exist",
    "2026-01-02T23:59:60Z": "expected a day and a time of day that exist",
    "2026-01-02T24:00:00Z": "expected a day and a time of day that exist",
    "2026-01-02T03:04:05+02:60": "expected an ISO 8601 time",
    "2026-01-02T03:04:05-18:01": "the offset must lie between -18:00 and +18:00",
    "2026-01-02T03:04:05+23:59": "the offset must lie between -18:00 and +18:00",
    "2026-01-02T03:04:05Z\n": "expected an ISO 8601 time",
    "58845-01-01T00:00:00Z": "expected an ISO 8601 time",
    "1899-12-31T23:59:59Z": "the year must lie between 1900 and 2200",
    "1900-01-01T00:00:00+05:00": "the year must lie between 1900 and 2200",
    "0001-01-01T00:00:00+14:00": "the year must lie between 1900 and 2200",
    "2201-01-01T00:00:00Z": "the year must lie between 1900 and 2200",
}


@pytest.mark.parametrize("text", TAKEN)
def test_forms_that_are_taken(text: str) -> None:
    """Each names one moment, whoever reads it."""
    assert parse_time(text).isoformat() == TAKEN[text]


@pytest.mark.parametrize("value", REFUSED, ids=str)
def test_everything_else_is_refused_with_what_is_expected(value: object) -> None:
    """Nothing is guessed: no number is a time, no time is without its offset, no year lies outside the range."""
    with pytest.raises(ValueError, match="^" + re.escape(REFUSED[value])):
        parse_time(value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (20260102, "expected an ISO 8601 date, such as 2026-01-02"),
        ("2026-1-2", "expected an ISO 8601 date"),
        ("2026-02-30", "expected a day that exists"),
        ("1899-12-31", "the year must lie between 1900 and 2200"),
        ("2201-01-01", "the year must lie between 1900 and 2200"),
    ],
)
def test_dates_too(value: object, reason: str) -> None:
    """A day has one form."""
    assert parse_date("2026-01-02").isoformat() == "2026-01-02"
    with pytest.raises(ValueError, match=reason):
        parse_date(value)
