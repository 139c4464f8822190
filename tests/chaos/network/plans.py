"""What a run is to be: how large, and what is killed when."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

BROKERS = ("broker-1", "broker-2", "broker-3")
CLUSTER, COORDINATOR = "cluster", "coordinator"
#: Whichever brokers people are being moved from and to, and a process of subscribers.
SOURCE, DESTINATION, CLIENT = "source", "destination", "client"
MOVING = (COORDINATOR, SOURCE, DESTINATION, CLIENT)


class How(StrEnum):
    """What is done to a process."""

    KILL = "kill"
    #: SIGSTOP, and SIGCONT later: others may take it for dead, and it comes back believing that no time has passed.
    PAUSE = "pause"
    #: Some of its connections are frozen or cut.
    PARTITION = "partition"
    #: Its wall clock is wrong by up to an hour for a while.
    CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class Kill:
    #: What is hit at the same moment.
    targets: tuple[str, ...]
    #: How long all may work before.
    after_s: float
    #: How long they stay down.
    down_s: float
    #: Whether something must have been delivered since the last kill.
    patient: bool = True
    how: How = How.KILL


@dataclass(frozen=True, slots=True)
class Scale:
    subscribers: int = 300
    processes: int = 2
    #: Between two requests of a publisher, and between two things that a subscriber does, on average.
    publish_every_s: float = 0.2
    act_every_s: float = 20.0
    away_s: float = 8.0
    #: How long it goes on at least after the last kill.
    rest_s: float = 3.0
    #: How many there are beside, in a process that is killed and started again; they hold what they hold, and bring no
    #: positions. And whether everybody is being moved about by plans.
    mortals: int = 0
    moves: bool = False
    #: When all is up, how long nothing may move before what is missing counts as lost.
    stall_s: float = 60.0


def plan_kills(seed: str, count: int, targets: Sequence[str] = (*BROKERS, COORDINATOR, CLUSTER)) -> list[Kill]:
    """Each in its turn, at random moments; now and then two at once, or one that has just been started again."""
    chance = random.Random(f"{seed}/kills")
    kills: list[Kill] = []
    turns: list[str] = []
    while len(kills) < count:
        turns = turns or chance.sample(list(targets), len(targets))
        hit = {turns.pop()}
        if chance.random() < 0.15:
            hit.add(chance.choice(targets))
        again = bool(kills) and chance.random() < 0.1
        kills.append(
            Kill(
                kills[-1].targets if again else tuple(sorted(hit)),
                after_s=chance.uniform(0.1, 1.5) if again else chance.uniform(0.5, 5.0),
                down_s=chance.choice((0.0, chance.uniform(0.1, 1.5), chance.uniform(3.0, 7.0))),
                patient=not again and chance.random() < 0.8,
            )
        )
    return kills


def plan_faults(seed: str, counts: Mapping[How, int], longest_pause_s: float) -> list[Kill]:
    """Faults that end no process, in random order, each of one process; pauses of 1 s to `longest_pause_s`."""
    chance = random.Random(f"{seed}/faults")
    hows = [how for how, count in counts.items() for _ in range(count)]
    chance.shuffle(hows)
    faults = []
    for how in hows:
        # The cluster is at one end of the brokers' links: cutting a broker off from it is the same fault.
        among = BROKERS if how is How.PARTITION else (*BROKERS, COORDINATOR, CLUSTER)
        lasts_s = chance.uniform(1.0, longest_pause_s) if how is How.PAUSE else chance.uniform(0.5, 8.0)
        faults.append(
            Kill((chance.choice(among),), chance.uniform(0.5, 3.0), lasts_s, patient=chance.random() < 0.5, how=how)
        )
    return faults
