"""An HTTP server that gives the answers it was told to give, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Status and body. Status 0 breaks the connection off without an answer.
Answer = tuple[int, Any]


@dataclass
class Asked:
    path: str
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answering:
    answer: Callable[[Asked], Answer]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def answering(answer: Callable[[Asked], Answer]) -> Iterator[Answering]:
    server = Answering(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked = Asked(self.path, body, {name.lower(): value for name, value in self.headers.items()})
            server.asked.append(asked)
            status, answer = server.answer(asked)
            if status == 0:
                self.close_connection = True
                return
            text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def refusal(status: int, code: str, message: str, **more: Any) -> Answer:
    return status, {"error": {"code": code, "message": message, "temporary": False, **more}}
