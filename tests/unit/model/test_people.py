"""People who are recognised without their names."""

from __future__ import annotations

import pytest

from tocsin.model.people import FORGOTTEN, fingerprint, is_fingerprint, without_name


@pytest.mark.parametrize("name", ["ann", "", "Ångström", "\ud800"])
def test_everything_that_can_be_a_text_has_a_fingerprint(name: str) -> None:
    """Equal names have equal fingerprints, and no name looks like one."""
    assert is_fingerprint(fingerprint(name))
    assert fingerprint(name) == fingerprint(name) != fingerprint(name + "x")
    assert not is_fingerprint(name)


def test_a_name_goes_from_every_depth_and_numbers_stay() -> None:
    """A subscriber of that user goes too; who is only called alike stays."""
    value = {"moves": [{"who": "ann/phone", "load": 2.5, "seen": None}], "by": "ann", "also": "annabel/phone"}
    assert without_name(value, "ann") == {
        "moves": [{"who": FORGOTTEN, "load": 2.5, "seen": None}],
        "by": FORGOTTEN,
        "also": "annabel/phone",
    }
