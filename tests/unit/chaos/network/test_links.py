"""Links between processes can be frozen and cut, and say nothing when frozen."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from chaos.network.links import Link, LinkState, Relays

pytestmark = pytest.mark.shell


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it is sent."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=_send_back, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def _send_back(connection: socket.socket) -> None:
    with connection, contextlib.suppress(ConnectionResetError):
        while data := connection.recv(100):
            connection.sendall(data)


@pytest.fixture
def link(echo: int) -> Iterator[Link]:
    relays = Relays()
    yield relays.link_to(echo)
    relays.close()


def _connect(link: Link) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), timeout=10)


def test_an_open_link_passes_everything(link: Link) -> None:
    """What is sent at one end comes out at the other, both ways."""
    with _connect(link) as near:
        near.sendall(b"hello")
        assert near.recv(5) == b"hello"


def test_a_frozen_link_holds_what_is_sent_until_it_is_open_again(link: Link) -> None:
    """While frozen nothing comes and nothing is refused; afterwards nothing is missing."""
    with _connect(link) as near:
        near.sendall(b"1")
        assert near.recv(1) == b"1"
        link.set(LinkState.FROZEN)
        near.sendall(b"2")
        near.settimeout(0.2)
        with pytest.raises(TimeoutError):
            near.recv(1)
        link.set(LinkState.OPEN)
        near.settimeout(10)
        assert near.recv(1) == b"2"


def test_a_cut_link_ends_connections_and_refuses_new_ones(link: Link) -> None:
    """Both sides see their connection end; who connects anew is sent away until it is open again."""
    with _connect(link) as near:
        near.sendall(b"1")
        assert near.recv(1) == b"1"
        link.set(LinkState.CUT)
        with pytest.raises(ConnectionResetError):
            near.recv(1)
    with pytest.raises(ConnectionResetError), _connect(link) as refused:
        refused.recv(1)
    link.set(LinkState.OPEN)
    with _connect(link) as near:
        near.sendall(b"3")
        assert near.recv(1) == b"3"
