"""Which brokers have fallen silent, and which of them are dead (pure).

Only silence that was watched counts: not the time before the start, nor while the coordinator itself was suspended. If
too many brokers would die at once, or soon after one another, none does: the fault is more likely at the coordinator.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from tocsin.coordinator.registry.events import Traffic
from tocsin.coordinator.registry.instructions import Instruction, Note, StoreBroker
from tocsin.coordinator.registry.records import BrokerRecord
from tocsin.protocol.coordination import BrokerState

#: Fewer brokers than this may well all fail at once, so they make no mass outage.
_MASS_MIN_BROKERS = 3


@dataclass(slots=True)
class KnownBroker:
    record: BrokerRecord
    heard_s: float
    traffic: Traffic = field(default_factory=Traffic)
    shutting_down: bool = False
    #: It has reported since the coordinator began, so what is known of its sessions is current.
    has_reported: bool = False
    #: It was dead when the coordinator stopped, and has sent no heartbeat since.
    was_dead: bool = False
    died_s: float = float("-inf")
    #: Bytes in and out since the coordinator began, as its heartbeats tell.
    carried_bytes: float = 0.0

    @property
    def state(self) -> BrokerState:
        if self.record.dead:
            return BrokerState.DEAD
        return BrokerState.DRAINING if self.shutting_down else self.record.mode

    @property
    def is_present(self) -> bool:
        """Whether subscribers may be at it."""
        return self.state in {BrokerState.ACTIVE, BrokerState.CORDONED}

    def to_store(self) -> BrokerRecord:
        return replace(self.record, dead=self.record.dead or self.was_dead)


class Liveness:
    def __init__(self, now_s: float, dead_after_s: float, mass_outage: float) -> None:
        self._dead_after_s = dead_after_s
        self._mass_share = mass_outage
        self._looked_s = now_s
        self._watching_since_s = now_s
        self.is_mass = False

    def silent_s(self, broker: KnownBroker, now_s: float) -> float:
        return max(0.0, now_s - max(broker.heard_s, self._watching_since_s))

    def is_overdue(self, broker: KnownBroker, now_s: float) -> bool:
        return self.silent_s(broker, now_s) >= self._dead_after_s

    def is_suspect(self, broker: KnownBroker, now_s: float) -> bool:
        return self.silent_s(broker, now_s) >= self._dead_after_s / 2

    def suspect_at_s(self, broker: KnownBroker) -> float:
        """When it will be suspect, if it sends no heartbeat before."""
        return max(broker.heard_s, self._watching_since_s) + self._dead_after_s / 2

    def look(self, brokers: Collection[KnownBroker], now_s: float) -> list[Instruction]:
        """Call it several times within the silence that makes a broker dead."""
        if now_s - self._looked_s > self._dead_after_s / 2:
            self._watching_since_s = now_s
        self._looked_s = now_s
        alive = [one for one in brokers if not one.record.dead]
        overdue = [one for one in alive if self.is_overdue(one, now_s)]
        # Brokers that were dead before the start are no news. Those almost overdue fell silent with the others, and
        # those that died a moment ago may have been the first of the same outage.
        fallen = [one for one in brokers if one.record.dead and now_s - one.died_s < self._dead_after_s]
        counted = [one for one in alive if not one.was_dead] + fallen
        suspect = [one for one in counted if self.is_suspect(one, now_s)]
        is_mass = (
            any(not one.was_dead for one in overdue)
            and len(counted) >= _MASS_MIN_BROKERS
            and len(suspect) > self._mass_share * len(counted)
        )
        done: list[Instruction] = []
        if is_mass != self.is_mass:
            self.is_mass = is_mass
            text = (
                "mass outage: most brokers fell silent at once; no broker is taken for dead"
                if is_mass
                else "mass outage has ended"
            )
            done.append(Note(text, {"silent": [one.record.name for one in suspect], "brokers": len(counted)}))
        for broker in overdue:
            if broker.was_dead or not is_mass:
                broker.record = replace(broker.record, dead=True)
                broker.died_s = float("-inf") if broker.was_dead else now_s
                broker.was_dead = False
                details = {"broker": broker.record.name, "silent_s": round(self.silent_s(broker, now_s), 1)}
                done += [StoreBroker(broker.record), Note("broker is dead: it fell silent", details)]
        return done
