"""Converts sessions between the wire format and the machine's records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from tocsin.coordinator.registry.events import Counted, Measured, ReportedSession, Traffic
from tocsin.coordinator.registry.instructions import BrokerOrders
from tocsin.coordinator.registry.records import SessionRecord, SessionSubscription, user_of
from tocsin.filters.naming import strings_of
from tocsin.model.people import fingerprint
from tocsin.protocol.coordination import Heartbeat, ReportedSubscription, Session, SubscriptionKeyBody
from tocsin.protocol.subscription_keys import KeyText, check_key, key_fields, key_text

#: The size limit of the sessions in one answer, and the size of a subscription without its key: names, its position.
_MAX_ANSWER_CHARACTERS = 4 << 20
_CHARACTERS_BESIDE = 120


def key_of(held: SubscriptionKeyBody) -> KeyText:
    check_key(held.channel, held.parameters)
    return key_text(held.channel, held.parameters, held.permission)


def reported(session: Session) -> ReportedSession:
    subscriptions = tuple(
        SessionSubscription(key_of(held), held.position, held.where) for held in session.subscriptions
    )
    return ReportedSession(session.subscriber, session.generation, session.connected, subscriptions)


def traffic(heartbeat: Heartbeat) -> Traffic:
    return Traffic(heartbeat.connections, heartbeat.bytes_in_per_s, heartbeat.bytes_out_per_s, heartbeat.cpu_cores)


def counted(heartbeat: Heartbeat) -> Counted:
    return Counted(tuple(heartbeat.latencies), heartbeat.cache_hits, heartbeat.cache_misses)


def measured(heartbeat: Heartbeat) -> Measured:
    return Measured(heartbeat.coordinate, heartbeat.round_trips_ms, heartbeat.peers_seen, heartbeat.located)


def pulled(heartbeat: Heartbeat) -> dict[KeyText, int]:
    return {key_of(one): one.size_bytes for one in heartbeat.pulled}


def orders_body(orders: BrokerOrders) -> dict[str, Any]:
    """Orders in the form of `protocol.coordination.HeartbeatAnswer`."""
    return {
        "prepare": [
            {"subscriber": subscriber, "subscriptions": [_backend_body(key) for key in keys]}
            for subscriber, keys in orders.prepare.items()
        ],
        "adopt": orders.adopt,
        "move": [
            {"subscriber": subscriber, "broker": to.broker, "url": to.url} for subscriber, to in orders.move.items()
        ],
    }


def session_body(session: SessionRecord) -> dict[str, Any]:
    """A session in the form of `protocol.coordination.Session`."""
    return {
        "subscriber": session.subscriber,
        "generation": session.generation,
        "connected": session.connected,
        "subscriptions": [_held_body(held) for held in session.subscriptions],
    }


def fitting_bodies(sessions: Iterable[SessionRecord]) -> list[dict[str, Any]]:
    """As many of these sessions, from the first one on, as fit into one answer; at least one."""
    bodies: list[dict[str, Any]] = []
    left = _MAX_ANSWER_CHARACTERS
    for session in sessions:
        left -= sum(len(held.key) + len(held.where) + _CHARACTERS_BESIDE for held in session.subscriptions)
        if left < 0 and bodies:
            break
        bodies.append(session_body(session))
    return bodies


def _held_body(held: SessionSubscription) -> dict[str, Any]:
    return {**_backend_body(held.key), "position": held.position, "where": held.where}


def _backend_body(key: KeyText) -> dict[str, Any]:
    channel, parameters, permission = key_fields(key)
    return {"channel": channel, "parameters": parameters, "permission": permission}


def known_people(sessions: Sequence[Session], forgotten: Collection[str]) -> list[Session]:
    """A broker's reported sessions without all that names people whom it has yet to forget, by their fingerprints: the
    coordinator must not keep it again."""
    if not forgotten:
        return list(sessions)
    return [
        session.model_copy(update={"subscriptions": _without(session.subscriptions, forgotten)})
        for session in sessions
        if not is_of(session.subscriber, forgotten)
    ]


def is_of(subscriber: str, people: Collection[str]) -> bool:
    """Whether a subscriber is one of these people, given as fingerprints of their names."""
    return fingerprint(user_of(subscriber)) in people


def _without(subscriptions: Sequence[ReportedSubscription], people: Collection[str]) -> list[ReportedSubscription]:
    def names_one(held: ReportedSubscription) -> bool:
        texts = [one for one in held.parameters.values() if isinstance(one, str)]
        return any(fingerprint(one) in people for one in (*texts, *strings_of(held.where)))

    return [one for one in subscriptions if not names_one(one)]
