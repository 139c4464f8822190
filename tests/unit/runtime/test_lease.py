"""At most one leads, whoever keeps the lease: a folder's lock, or a row in PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from databases import fresh_database
from tocsin.errors import ClusterFailure, Unavailable
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


def _is_taken(lease: Lease) -> bool:
    try:
        return lease.take() is None
    except ClusterFailure:
        return True


def test_one_leads_until_it_lets_go(make: Callable[[], Lease]) -> None:
    """The next one may lead at once, and no term is lower than those before it; if leases end by themselves, each is
    higher."""
    one, other, third = make(), make(), make()
    first = one.take()
    assert first is not None
    assert _is_taken(other)
    assert one.renew()
    one.release()
    second = other.take()
    assert second is not None
    assert second > first if one.needs_renewal else second == first
    assert _is_taken(third)
    other.release()
    third.release()


def test_a_lock_on_a_folder_is_waited_for_by_nobody(tmp_path: Path) -> None:
    """A second process in the same folder is there by mistake, and is told so."""
    one, other = (FileLease(tmp_path, "the folder") for _ in range(2))
    with (
        leading(one, "it", pytest.fail),
        pytest.raises(ClusterFailure, match=r"the folder .* is open in another process"),
        leading(other, "it", pytest.fail),
    ):
        pass
    with leading(other, "it", pytest.fail) as term:
        assert term == 1


@pytest.mark.parametrize("make", [pytest.param("postgresql", marks=pytest.mark.servers)], indirect=True)
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

    needs_renewal = True

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
