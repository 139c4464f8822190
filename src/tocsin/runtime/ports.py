"""Ports: which one is free, and who listens on it."""

from __future__ import annotations

import errno
import random
import socket
import threading

import psutil

from tocsin.errors import InvalidValue

LAST_PORT = 65535
#: Below the ports that systems use for outgoing connections: those could take a port between our check and its use.
_PORTS = (20_000, 32_000)
_picking = threading.Lock()
_given: set[int] = set()


def free_port() -> int:
    """A port that is free, and was not given to anybody else in this process: servers start side by side."""
    with _picking:
        while True:
            port = random.SystemRandom().randrange(*_PORTS)
            if port in _given:
                continue
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            _given.add(port)
            return port


def check_port(host: str, port: int, title: str, hint: str = "give another with --port") -> None:
    """Raises InvalidValue if `port` of `host` can't be listened on now. It names the process that does, if it may."""
    if not 0 <= port <= LAST_PORT:  # getaddrinfo would wrap larger numbers around to another port.
        raise InvalidValue(f"{title}: {port} is no port; allowed are 1 to {LAST_PORT}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As servers do: remaining connections of an earlier process don't matter.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            raise InvalidValue(f"{title}: port {port} is in use by {_listener(port)}; {hint}") from exc
        raise InvalidValue(f"{title}: can't listen on port {port} of {host}: {exc.strerror}") from exc


def is_listening(pid: int, port: int) -> bool:
    """Whether that process itself listens on `port`: an answer from there is then its own."""
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in connections)


def in_words(process: psutil.Process) -> str:
    """A process as people know it, in one line: a command may have several. Raises psutil.Error if it is gone."""
    return f"process {process.pid} ({' '.join(' '.join(process.cmdline()).split())[:80]})"


def _listener(port: int) -> str:
    """The process that listens on a port, as far as this user may know."""
    try:
        pids = [
            one.pid
            for one in psutil.net_connections("tcp")
            if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid
        ]
        if pids:
            return in_words(psutil.Process(pids[0]))
    except psutil.Error:
        pass
    return "another process"
