"""A lease: at most one process leads at a time. The kernel keeps it as a lock on a folder, or PostgreSQL as a row."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol

import structlog

from tocsin.errors import Unavailable
from tocsin.runtime.folders import locked_folder
from tocsin.runtime.leadership import Leadership, Role

log = structlog.get_logger(__name__)


class Lease(Protocol):
    """All methods but `release` raise Unavailable if the keeper does not answer."""

    #: Whether it ends by itself.
    needs_renewal: bool

    def take(self) -> int | None:
        """The number of the term that begins now, or None while another process leads. Raises ClusterFailure instead if
        nobody is to wait for this lease."""

    def renew(self) -> bool:
        """Whether this process still leads."""

    def leader(self) -> str:
        """Who leads, for people; empty if nobody does, or if that can't be known."""

    def release(self) -> None:
        """Let the next process lead at once."""


class FileLease:
    """A lock on a folder, for one machine. It ends with the process, so all are of one term, and nobody waits: a second
    process is there by mistake."""

    needs_renewal = False

    def __init__(self, folder: Path, title: str) -> None:
        self._folder = folder
        self._title = title
        self._locks = ExitStack()

    def take(self) -> int | None:
        self._locks.enter_context(locked_folder(self._folder, self._title))
        return 1

    def renew(self) -> bool:
        return True

    def leader(self) -> str:
        return ""

    def release(self) -> None:
        self._locks.close()


@contextmanager
def leading(lease: Lease, title: str, on_lost: Callable[[], None]) -> Iterator[int]:
    """Stands by until this process leads; then its term. If the lease ends by itself, a thread renews it as long as the
    block runs, and calls `on_lost` if another process has it."""
    leadership = Leadership()
    has_ended = threading.Event()
    logged = ""
    while not _took(lease, leadership):
        try:
            leader = lease.leader()
        except Unavailable as exc:
            leader = str(exc)
        if leader and leader != logged:
            log.warning("standing by", process=title, leader=leader)
            logged = leader
        has_ended.wait(leadership.next_attempt_in_s)
    if not lease.needs_renewal:
        try:
            yield leadership.term
        finally:
            lease.release()
        return
    log.info("leading", process=title, term=leadership.term)

    def keep() -> None:
        while leadership.role is Role.LEADER and not has_ended.wait(leadership.next_attempt_in_s):
            try:
                leadership.renewed(lease.renew())
            except Unavailable as exc:
                log.warning("the lease could not be renewed", process=title, reason=str(exc))
        if leadership.role is Role.LOST:
            log.error("another process leads now", process=title)
            on_lost()

    keeping = threading.Thread(target=keep, name="lease", daemon=True)
    keeping.start()
    try:
        yield leadership.term
    finally:
        has_ended.set()
        keeping.join()
        lease.release()


def _took(lease: Lease, leadership: Leadership) -> bool:
    with suppress(Unavailable):
        leadership.took(lease.take())
    return leadership.role is Role.LEADER
