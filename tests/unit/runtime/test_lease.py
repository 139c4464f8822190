"""At most one leads, whoever keeps the lease: a folder's lock, or a row in PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from databases import fresh_database
from tocsin.errors import Unavailable
from tocsin.runtime.database_address import read_address
from tocsin.runtime.lease import FileLease, Lease, leading

_WAIT_S = 60


@pytest.fixture(params=["folder", pytest.param("postgresql", marks=pytest.mark.servers)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Lease]]:
    """Another process's handle of the same lease."""
    if request.param == "folder":
        yield lambda: FileLease(tmp_path, "the folder")
        return
    from tocsin.runtime.postgresql_lease import PostgresqlLease

    server = request.getfixturevalue("postgresql")
    with fresh_database(server) as name:
        yield lambda: PostgresqlLease(read_address(server.url(name)), "test")


def test_one_leads_until_it_lets_go(make: Callable[[], Lease]) -> None:
    """Each leader has a higher term than all before it."""
    one, other, third = make(), make(), make()
    first = one.take()
    assert first is not None
    assert other.take() is None
    assert one.renew()
    one.release()
    second = other.take()
    assert second is not None
    assert second > first
    assert third.take() is None
    other.release()
    third.release()


def test_a_standby_leads_as_soon_as_the_leader_lets_go(make: Callable[[], Lease]) -> None:
    """It waits meanwhile."""
    terms: list[int] = []
    leads = threading.Event()

    def stand_by() -> None:
        with leading(make(), "the other", pytest.fail) as term:
            terms.append(term)
            leads.set()

    with leading(make(), "the one", pytest.fail) as term:
        terms.append(term)
        waiting = threading.Thread(target=stand_by)
        waiting.start()
        assert not leads.wait(1)
    assert leads.wait(_WAIT_S)
    waiting.join()
    assert terms == sorted(set(terms))


class _Scripted:
    """A lease whose keeper answers as the test says: what `take` and `renew` return, or that there is no answer."""

    def __init__(self, answers: list[int | bool | None]) -> None:
        self._answers = iter(answers)
        self.is_released = False

    def take(self) -> int | None:
        return next(self._answers)

    def renew(self) -> bool:
        if (answer := next(self._answers)) is None:
            raise Unavailable("no answer", retry_after_s=1)
        return bool(answer)

    def leader(self) -> str:
        return "another"

    def release(self) -> None:
        self.is_released = True


def test_a_leader_outlasts_a_keeper_that_does_not_answer_and_ends_when_another_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the keeper's word that another one leads ends it."""
    monkeypatch.setattr("tocsin.runtime.leadership._RENEW_EVERY_S", 0.01)
    lease = _Scripted([None, 3, True, None, None, True, False])
    lost = threading.Event()
    with leading(lease, "it", lost.set) as term:
        assert term == 3
        assert lost.wait(_WAIT_S)
    assert next(lease._answers, "all heard") == "all heard"
    assert lease.is_released
