"""Clients of Tocsin for Python programs."""

from tocsin.client.cluster import ClusterClient
from tocsin.client.coordinator import CoordinatorClient
from tocsin.client.core.failures import ConnectionEnded, NotConnected, Replaced, TokenRefused
from tocsin.client.notifications import Notification, Snapshot
from tocsin.client.publisher import AsyncPublisher
from tocsin.client.shell.http import ServerError
from tocsin.client.subscriber import Subscriber
from tocsin.client.subscriptions import Subscription
from tocsin.client.sync import SyncNotification, SyncSubscriber, SyncSubscription
from tocsin.errors import Refused

__all__ = [
    "AsyncPublisher",
    "ClusterClient",
    "ConnectionEnded",
    "CoordinatorClient",
    "NotConnected",
    "Notification",
    "Refused",
    "Replaced",
    "ServerError",
    "Snapshot",
    "Subscriber",
    "Subscription",
    "SyncNotification",
    "SyncSubscriber",
    "SyncSubscription",
    "TokenRefused",
]
