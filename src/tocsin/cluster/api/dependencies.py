"""Dependencies of all routes of the cluster: the cluster itself, and request bodies with limits."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from tocsin.cluster.cluster import Cluster, ClusterState
from tocsin.errors import TooLarge, Unavailable

#: All bodies that are being received, together: bounds memory when a thousand publishers come at once.
_MAX_RECEIVING_BYTES = 256 << 20
#: A bulk subscribe of 100,000 takes some 20 MB; nothing else comes near.
MAX_BODY_BYTES = 64 << 20
_STARTING_RETRY_S = 1.0


def cluster_of(request: Request) -> Cluster:
    cluster = request.app.state.cluster
    assert isinstance(cluster, Cluster)
    return cluster


def ready_cluster_of(request: Request) -> Cluster:
    cluster = cluster_of(request)
    if cluster.state is not ClusterState.READY:
        raise Unavailable(f"the cluster is {cluster.state}", retry_after_s=_STARTING_RETRY_S)
    return cluster


AnyCluster = Annotated[Cluster, Depends(cluster_of)]
ReadyCluster = Annotated[Cluster, Depends(ready_cluster_of)]


class Receiving:
    """Reads request bodies, each up to a limit, all together up to another."""

    def __init__(self) -> None:
        self._bytes = 0

    async def body(self, request: Request, max_bytes: int) -> bytes:
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > max_bytes:
            raise TooLarge(f"the body has {declared} bytes; at most {max_bytes} are taken in one request")
        chunks: list[bytes] = []
        size = 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
                self._bytes += len(chunk)
                if size > max_bytes:
                    raise TooLarge(f"the body has more than {max_bytes} bytes, the most that is taken in one request")
                if self._bytes > _MAX_RECEIVING_BYTES:
                    raise Unavailable("too many requests are being received at once", retry_after_s=1.0)
                chunks.append(chunk)
        finally:
            self._bytes -= size
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
