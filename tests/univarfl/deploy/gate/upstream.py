"""A small server in the SuperLink's place: it keeps what it receives and answers as it is told."""

import asyncio
import threading
import time
from collections import defaultdict
from typing import Any

import uvicorn

from univarfl.deploy.places import CoordinatorPlace


class Upstream:
    """The server; it answers 200 with an empty body unless `answers` holds something else.

    Attributes:
        received: path, headers and body of each request, in order.
        answers: what to answer next, by path: a status, headers and a body.
        delay: seconds before each answer.
    """

    def __init__(self, place: CoordinatorPlace, port: int) -> None:
        self.received: list[tuple[str, dict[bytes, bytes], bytes]] = []
        self.answers: dict[str, list[tuple[int, dict[bytes, bytes], bytes]]] = defaultdict(list)
        self.delay = 0.0
        config = uvicorn.Config(
            self._answer, interface="asgi3", port=port, lifespan="off", log_config=None,
            access_log=False, ws="none", ssl_certfile=place.certificate, ssl_keyfile=place.key,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> "Upstream":
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the server has ended; is its port taken?"
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()

    def paths(self) -> list[str]:
        return [path for path, _, _ in self.received if path != "/health"]

    async def _answer(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        path = scope["raw_path"].decode()
        self.received.append((path, dict(scope["headers"]), body))
        await asyncio.sleep(self.delay)
        status, headers, content = (self.answers[path] or [(200, {}, b"")]).pop(0)
        await send({"type": "http.response.start", "status": status, "headers": headers.items()})
        await send({"type": "http.response.body", "body": content})
