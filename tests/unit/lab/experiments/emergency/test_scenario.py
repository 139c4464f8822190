"""Who does what when: drawn from a seed, or read from a file that has been checked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tocsin.errors import InvalidValue
from tocsin.lab.experiments.emergency.city import City
from tocsin.lab.experiments.emergency.scenario import (
    CityScenario,
    Interaction,
    check_interactions,
    draw_interactions,
    read_interactions,
    write_interactions,
)
from tocsin.lab.experiments.emergency.workload import EmergencyWorkload

_PEOPLE = 60
_SCENARIO = CityScenario(people=_PEOPLE, away=0.5, changing=0.5)


@pytest.fixture(scope="module")
def workload() -> EmergencyWorkload:
    return EmergencyWorkload(City.generate(1), users=_PEOPLE, seed=1)


def test_as_in_the_papers(workload: EmergencyWorkload) -> None:
    """All log in within four minutes and subscribe within the next four: 1 to 5 channels, 1 to 3 times each."""
    drawn = draw_interactions(replace(_SCENARIO, away=0, changing=0), workload)
    logins = [one for one in drawn if one.action == "login"]
    subscribes = [one for one in drawn if one.action == "subscribe"]
    assert len(logins) == _PEOPLE
    assert all(0 <= one.at_s <= 240 for one in logins)
    assert all(240 <= one.at_s <= 480 for one in subscribes)
    assert len(logins) + len(subscribes) == len(drawn)
    channels = Counter((one.user, one.channel) for one in subscribes)
    assert set(channels.values()) == {1, 2, 3}
    assert set(Counter(user for user, _ in channels).values()) == {1, 2, 3, 4, 5}
    assert not any("user_id" in one.parameters for one in subscribes), "whom it is near to is not for them to say"


def test_what_is_drawn_can_be_done_and_follows_from_the_seed(workload: EmergencyWorkload) -> None:
    drawn = draw_interactions(_SCENARIO, workload)
    check_interactions(drawn, workload.user_ids)
    counted = Counter(one.action for one in drawn)
    assert counted["logout"] > _PEOPLE / 4
    assert counted["unsubscribe"] > _PEOPLE / 4
    assert counted["login"] == _PEOPLE + counted["logout"], "everybody is back in the end"
    assert drawn == draw_interactions(_SCENARIO, workload)
    assert drawn != draw_interactions(replace(_SCENARIO, seed=2), workload)
    assert max(one.at_s for one in drawn) < _SCENARIO.duration_s


def test_a_file_holds_them(workload: EmergencyWorkload, tmp_path: Path) -> None:
    """Interactions that were written are read back as they were."""
    drawn = draw_interactions(_SCENARIO, workload)
    write_interactions(tmp_path / "some.jsonl", drawn)
    assert read_interactions(tmp_path / "some.jsonl", workload) == drawn


_LOGIN = '{"at_s": 1, "user": "user-000000", "action": "login"}'
_SUBSCRIBE = '{"at_s": 2, "user": "user-000000", "action": "subscribe", "channel": "EmergenciesOfType"'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1: not an interaction"),
        (_LOGIN + '\n{"at_s": 1, "user": "user-000000", "action": "dance"}', "line 2: not an interaction"),
        (_LOGIN + '\n{"at_s": 1, "user": "user-000000", "action": "logout", "why": 1}', "unknown field `why`"),
        ('{"at_s": 1, "user": "nobody", "action": "login"}', "no such person; there are 60, from user-000000 to"),
        (_LOGIN + '\n{"at_s": 0, "user": "user-000000", "action": "logout"}', "times have to be in order"),
        ('{"at_s": 1, "user": "user-000000", "action": "logout"}', "logout without being logged in"),
        (f"{_LOGIN}\n{_LOGIN}", "interaction 2, user-000000 at 1 s: is logged in already"),
        (_LOGIN + "\n" + _SUBSCRIBE + "}", "takes the parameters etype"),
        (_LOGIN + "\n" + _SUBSCRIBE.replace("OfType", "OfKind") + "}", "no channel called 'EmergenciesOfKind'"),
        (_LOGIN + ("\n" + _SUBSCRIBE + ', "parameters": {"etype": "fire"}}') * 2, "subscribed to that already"),
    ],
)
def test_what_cannot_be_is_refused(workload: EmergencyWorkload, tmp_path: Path, text: str, words: str) -> None:
    """Each refusal says what is wrong with the line."""
    file = tmp_path / "wrong.jsonl"
    file.write_text(text)
    with pytest.raises(InvalidValue) as caught:
        read_interactions(file, workload)
    assert words in str(caught.value)


def test_giving_up_what_one_does_not_hold_is_refused() -> None:
    login = Interaction(0.0, "ann", "login")
    fires = Interaction(1.0, "ann", "unsubscribe", "EmergenciesOfType", {"etype": "fire"})
    with pytest.raises(InvalidValue, match="not subscribed to that"):
        check_interactions([login, fires], ["ann"])
