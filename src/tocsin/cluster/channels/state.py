"""A channel at work: its query, its subscriptions, and how its runs went."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tocsin.cluster.channels.compiler.compile import CompiledChannel
from tocsin.cluster.channels.core.cost import CostHistory
from tocsin.cluster.channels.subscription_relation import ChannelSubscriptions
from tocsin.model.catalogue import Channel


@dataclass(slots=True)
class ChannelState:
    channel: Channel
    compiled: CompiledChannel
    subscriptions: ChannelSubscriptions
    #: Held by the thread that runs the channel: windows follow each other. Others wait for it only with a time limit.
    lock: threading.Lock = field(default_factory=threading.Lock)
    #: Held during a commit, so that nothing is committed for a channel after it was dropped.
    committing: threading.Lock = field(default_factory=threading.Lock)
    #: A run was requested; the thread that runs the channel checks this before it releases the lock.
    is_due: bool = False
    #: Subscriptions wait for a snapshot; whoever releases the lock sees to it.
    is_snapshot_due: bool = False
    #: A paused channel only stops running: its window grows until it is resumed.
    is_paused: bool = False
    #: Why the channel was paused, if no person paused it.
    pause_reason: str = ""
    #: A person has looked at why it was paused and wants it to go on: the next commit that fails is processed to its
    #: end, however much of it has to be set aside.
    is_resumed: bool = False
    #: The channel was dropped, or the cluster stops: no part of a run begins any more.
    is_stopping: bool = False
    #: Spark's name for the job under way, used to cancel it.
    job_group: str = ""
    #: Subscriptions that are held and not run any more, such as failed ones.
    failed: set[int] = field(default_factory=set)
    #: Failed ones, held or not, that Spark's copies still have: a run with their values would fail.
    spoiling: set[int] = field(default_factory=set)
    #: Rows that failed with one subscription, by subscription.
    strikes: Counter[int] = field(default_factory=Counter)
    #: Rows that failed with all subscriptions since the last run that had results.
    set_aside_in_a_row: int = 0
    #: For exits: what the datasets were like when some results could not be checked.
    unchecked: object = None
    costs: CostHistory = field(default_factory=CostHistory)
    runs: int = 0
    #: Rows of runs that were no results, because ONCE PER had given one with the same key.
    known_rows: int = 0
    #: Runs that outlasted their period.
    overruns: int = 0
    #: Records that this channel skipped, for some or for all of its subscriptions.
    rows_set_aside: int = 0
    last_run_s: float = 0.0
    last_results: int = 0
    last_error: str = ""

    def forget(self, ids: Sequence[int]) -> None:
        """These subscriptions are over, and no broker holds them."""
        self.failed.difference_update(ids)
        for one in ids:
            self.strikes.pop(one, None)
