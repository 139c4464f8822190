"""Names of users, devices and brokers."""

from __future__ import annotations

import pytest

from tocsin.protocol.subscribers import is_name


@pytest.mark.parametrize("text", ["ann", "ann@home.example", "~1", "a" * 64, ".."])
def test_names_are_short_and_plain(text: str) -> None:
    """Letters, digits and a few signs, in up to 64 characters."""
    assert is_name(text)


@pytest.mark.parametrize("text", ["", "a" * 65, "ann/phone", "sha256:00", "é", "ann ", "ann\n"])
def test_what_would_be_taken_for_something_else_is_no_name(text: str) -> None:
    """A slash separates user and device, a colon marks fingerprints, and no blank hides at the end."""
    assert not is_name(text)
