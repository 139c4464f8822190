"""Scenarios from TOML: what is wrong is told with file, line, key and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.errors import InvalidValue
from tocsin.simulator.reading import load, parse, presets
from tocsin.simulator.scenario import BrokerLayout
from unit.simulator.scenarios import SMALL, small


def refusal_of(text: str, file: str = "small.toml") -> str:
    with pytest.raises(InvalidValue) as caught:
        parse(text, file)
    return str(caught.value)


def changed(old: str, new: str) -> str:
    assert old in SMALL
    return SMALL.replace(old, new)


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'migration = ""',
            'migration = "ldn"',
            "[balancing] migration = 'ldn' is not a migration policy; there are: group, ldm, sdm",
        ),
        (
            'shuffle = ""',
            'shuffle = "ldm"',
            "[balancing] shuffle = 'ldm' is not a shuffle policy; there are: gsh, sharing",
        ),
        (
            'shuffle = ""',
            'placement = "near"',
            "[balancing] placement = 'near' is not a placement policy; there are: least",
        ),
        ('shuffle = ""', "alfa = 0.1", "[balancing] alfa is no key here; did you mean alpha?"),
        ("login_s =", "loginn_s =", "[subscribers] loginn_s is no key here; did you mean login_s?"),
        ("duration_s = 200", "duraton_s = 200", "duraton_s is no key here; did you mean duration_s?"),
        ('shuffle = ""', "alpha = -0.1", "[balancing] alpha = -0.1 is not allowed: expected `float` >= 0.0"),
        ('shuffle = ""', "alpha = nan", "[balancing] alpha = nan has to be a finite number"),
        ('shuffle = ""', "beta = inf", "[balancing] beta = inf has to be a finite number"),
        ('shuffle = ""', "hits = 0", "[balancing] hits = 0 is not allowed"),
        ('shuffle = ""', 'hits = "3"', "[balancing] hits = '3' is not allowed: expected `int"),
        ("count = 150", "count = 0", "[subscribers] count = 0 is not allowed: expected `int` >= 1"),
        ("count = 150", "count = 1.5", "[subscribers] count = 1.5 is not allowed"),
        ("count = 150\n", "", "[subscribers] count is missing"),
        (
            "subscriptions = [2, 6]",
            "subscriptions = [6, 2]",
            "[subscribers] subscriptions = [6, 2] is the wrong way round",
        ),
        ("subscriptions = [2, 6]", "subscriptions = [2]", "[subscribers] subscriptions = [2] is not allowed"),
        ("subscriptions = [2, 6]", "subscriptions = [2, 81]", "is more than the 80 that all channels have"),
        ("login_s = [0, 20]", "login_s = [20, 0]", "[subscribers] login_s = [20, 0] is the wrong way round"),
        ("login_s = [0, 20]", "login_s = [-1, 20]", "[subscribers] [[login_s]] (1st) = -1 is not allowed"),
        ("login_s = [0, 20]", "mean_offline_s = 3", "[subscribers] mean_online_s has to be given with mean_offline_s"),
        ("login_s = [0, 20]", "channels = [1, 5]", "[subscribers] channels = [1, 5] is more than there are, 4"),
        ("login_s = [0, 20]", 'popularity = "zip"', "[subscribers] popularity = 'zip' is not allowed"),
        (
            "login_s = [0, 20]",
            'popularity = "communities"\ngroups = 81',
            "[subscribers] groups = 81 is more than there are",
        ),
        ("share = 0.6", "share = 1.6", "[subscribers] [[crowds]] (1st) share = 1.6 is not allowed"),
        ("periods_s = [5, 7, 11, 20]", "periods_s = [5, 0]", "[channels] [[periods_s]] (2nd) = 0 is not allowed"),
        ("periods_s = [5, 7, 11, 20]", "periods_s = []", "[channels] periods_s = [] is not allowed"),
        (
            "mean_bytes_per_s = 100",
            "mean_bytes_per_s = -100",
            "[channels] [rate] mean_bytes_per_s = -100 is not allowed",
        ),
        ("sample_every_s = 10", "sample_every_s = 201", "sample_every_s = 201 is longer than the run, 200 s"),
        ("sample_every_s = 10", "sample_every_s = 0", "sample_every_s = 0 is not allowed"),
        ("sample_every_s = 10", "sample_every_s = 0.0001", "makes more than 1,000,000 samples"),
        ("[balancing]", "[network]\ndead_after_s = 1\n[balancing]", "[network] dead_after_s = 1 has to be longer"),
        (
            "[balancing]",
            "[fluctuation]\nfalls_after_s = [9, 8]\n[balancing]",
            "[fluctuation] falls_after_s = [9, 8] is the wrong",
        ),
        (
            "[balancing]",
            "[fluctuation]\nchannels = 5\n[balancing]",
            "[fluctuation] channels = 5 is more than there are, 4",
        ),
        ("[balancing]", "[balancing", "this is not TOML"),
        (
            "count = 4\n\n[channels]",
            'count = 4\nlayout = "star"\n[channels]',
            "[brokers] layout = 'star' is not allowed",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_key(old: str, new: str, said: str) -> None:
    assert said in refusal_of(changed(old, new))


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('shuffle = ""', 'shuffle = "gsx"', "shuffle"),
        ("periods_s = [5, 7, 11, 20]", "periods_s = [5, 0]", "periods_s"),
        ("rate = { mean_bytes_per_s = 100", "rate = { mean_bytes_per_s = 0", "rate ="),
        ("count = 150\n", "", "[subscribers]"),
        ("count = 150", "# count = 150\ncuont = 150", "cuont"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(old: str, new: str, key: str) -> None:
    text = changed(old, new)
    assert refusal_of(text, "some.toml").startswith(f"some.toml, line {line_of(text, key)}: ")


def test_elements_of_lists_are_told_by_number_and_line() -> None:
    failures = '\n[[failures]]\nbroker = "broker-1"\nat_s = 5\n\n[[failures]]\nbroker = "broker-9"\nat_s = 6\n'
    line = len(SMALL.splitlines()) + 7
    said = "[[failures]] (2nd) broker = 'broker-9' is no broker; there are: broker-1, broker-2, broker-3, broker-4"
    assert refusal_of(SMALL + failures) == f"small.toml, line {line}: {said}"


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ('[[failures]]\nbroker = "broker-1"\nat_s = 201', "(1st) at_s = 201 is after the end of the run, 200"),
        ('[[failures]]\nbroker = "broker-1"\nat_s = 9\n[[failures]]\nbroker = "broker-1"\nat_s = 99', "down already"),
        ('[[failures]]\nbroker = "broker-1"\nat_s = 9\nback_after = 3', "did you mean back_after_s?"),
    ],
)
def test_impossible_failures_are_refused(failures: str, said: str) -> None:
    """The refusal says which failure can't be, and why."""
    assert said in refusal_of(f"{SMALL}\n{failures}\n")


def test_names_are_taken_once() -> None:
    """Two brokers of one name are refused, with the place of the first."""
    brokers = '[[brokers]]\nname = "a"\n[[brokers]]\nname = "b"\n[[brokers]]\nname = "a"'
    assert "[[brokers]] (1st) name = 'a' is the name of more than one" in refusal_of(
        changed("[brokers]\ncount = 4", brokers)
    )


def test_what_was_set_by_hand_is_told_as_it_was_given() -> None:
    with pytest.raises(InvalidValue, match=r"^--set balancing.alpha=-1: \[balancing\] alpha = -1 is not allowed"):
        small(balancing__alpha="-1")
    with pytest.raises(InvalidValue, match=r"^--set balancing.alfa=1: .*did you mean alpha"):
        small(balancing__alfa="1")
    with pytest.raises(InvalidValue, match=r"^--set seed.x=1: "):
        small(seed__x="1")


def test_single_values_can_be_set() -> None:
    """By their path, also inside lists, and without quotes around words."""
    scenario = small(balancing__alpha="0.05", balancing__migration="ldm", subscribers__crowds__0__share="0.1")
    assert scenario.balancing.alpha == 0.05
    assert scenario.balancing.migration == "ldm", "a word needs no quotes"
    assert scenario.subscribers.crowds[0].share == 0.1


def test_every_preset_can_be_loaded_by_its_name() -> None:
    found = presets()
    assert set(found) == {"paper", "prototype", "zipf", "communities", "city-million", "living-city", "sites"}
    for name, scenario in found.items():
        assert scenario.name == name
        assert scenario.title
        assert load(name) == scenario
    paper = found["paper"]
    assert isinstance(paper.brokers, BrokerLayout)
    assert paper.brokers.count == 10
    assert sum(one.subscriptions for one in paper.all_channels()) == 1000


def test_a_file_is_loaded_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(SMALL)
    assert load(str(file)) == small()
    file.write_text("name = 3")
    with pytest.raises(InvalidValue, match=r"^mine.toml, line 1: name = 3 is not allowed"):
        load(str(file))
    file.write_bytes(b"\xff")
    with pytest.raises(InvalidValue, match="can't be read"):
        load(str(file))


@pytest.mark.parametrize("name", ["papr", "no/such.toml", "../presets/paper", ""])
def test_a_scenario_that_is_not_there_is_told_with_those_that_are(name: str) -> None:
    with pytest.raises(
        InvalidValue, match="there are: city-million, communities, living-city, paper, prototype, sites, zipf"
    ):
        load(name)
