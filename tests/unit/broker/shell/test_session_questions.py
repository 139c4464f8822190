"""Newcomers wait for one call to the coordinator, or for two if one is under way, however many come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tocsin.broker.shell.session_questions import SessionQuestions
from tocsin.errors import Unavailable
from tocsin.protocol.ports import KeptSession


class _Coordinator:
    """Answers when it is let; knows what generation each has, and answers for `most` at a time."""

    def __init__(self, most: int = 1000) -> None:
        self.known: dict[str, int] = {}
        self.calls: list[list[str]] = []
        self.is_away = False
        self.is_let = asyncio.Event()
        self._most = most

    async def ask(self, subscribers: Sequence[str]) -> tuple[dict[str, KeptSession | None], list[str]]:
        self.calls.append(list(subscribers))
        known = dict(self.known)
        await self.is_let.wait()
        if self.is_away:
            raise Unavailable("away", retry_after_s=1)
        now, later = subscribers[: self._most], subscribers[self._most :]
        return {one: KeptSession(one, known[one], []) if one in known else None for one in now}, list(later)


async def _soon(questions: SessionQuestions, *subscribers: str) -> list[asyncio.Task[KeptSession | None]]:
    tasks = [asyncio.create_task(questions.session(one)) for one in subscribers]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


def test_who_comes_while_a_call_is_under_way_goes_with_the_next_one() -> None:
    async def scenario() -> None:
        coordinator = _Coordinator()
        coordinator.known["ann/d"] = 3
        questions = SessionQuestions(coordinator.ask)
        tasks = await _soon(questions, "ann/d")
        tasks += await _soon(questions, "bob/d", "cid/d")
        coordinator.is_let.set()
        ann, bob, cid = await asyncio.gather(*tasks)
        assert ann == KeptSession("ann/d", 3, [])
        assert bob is None
        assert cid is None
        assert coordinator.calls == [["ann/d"], ["bob/d", "cid/d"]]

    asyncio.run(scenario())


def test_who_comes_again_gets_no_answer_from_before() -> None:
    """What another broker reported between the two questions is in the second answer."""

    async def scenario() -> None:
        coordinator = _Coordinator()
        questions = SessionQuestions(coordinator.ask)
        first = await _soon(questions, "ann/d")
        coordinator.known["ann/d"] = 1
        second = await _soon(questions, "ann/d")
        coordinator.is_let.set()
        assert await asyncio.gather(*first) == [None]
        assert await asyncio.gather(*second) == [KeptSession("ann/d", 1, [])]

    asyncio.run(scenario())


def test_those_who_do_not_fit_are_asked_about_again() -> None:
    async def scenario() -> None:
        coordinator = _Coordinator(most=2)
        coordinator.is_let.set()
        questions = SessionQuestions(coordinator.ask)
        names = [f"ann/{at}" for at in range(5)]
        assert await asyncio.gather(*map(questions.session, names)) == [None] * 5
        assert coordinator.calls == [names, names[2:], names[4:]]

    asyncio.run(scenario())


def test_a_coordinator_that_is_away_is_told_to_all_who_wait_and_asked_again_for_the_next() -> None:
    async def scenario() -> None:
        coordinator = _Coordinator()
        coordinator.is_away = True
        coordinator.is_let.set()
        questions = SessionQuestions(coordinator.ask)
        answers = await asyncio.gather(*(questions.session(one) for one in ("ann/d", "bob/d")), return_exceptions=True)
        assert [type(one) for one in answers] == [Unavailable, Unavailable]
        coordinator.is_away = False
        assert await questions.session("ann/d") is None

    asyncio.run(scenario())


def test_who_loses_patience_takes_nobody_along() -> None:
    """A question that is given up does not end the call that others wait for."""

    async def scenario() -> None:
        coordinator = _Coordinator()
        questions = SessionQuestions(coordinator.ask)
        impatient, patient = await _soon(questions, "ann/d", "bob/d")
        impatient.cancel()
        await asyncio.sleep(0)
        coordinator.is_let.set()
        assert await patient is None
        with pytest.raises(asyncio.CancelledError):
            await impatient

    asyncio.run(scenario())
