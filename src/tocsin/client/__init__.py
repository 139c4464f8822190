"""How programs talk to Tocsin."""

from tocsin.client.cluster import ClusterClient, ServerError

__all__ = ["ClusterClient", "ServerError"]
