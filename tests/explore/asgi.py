"""A client that calls an ASGI application without a network, with just the headers that a test gives."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def call(
    app: Any, method: str, path: str, headers: dict[str, str], body: bytes | Iterable[bytes] = b""
) -> Answer:
    """Send one request; a body of several chunks comes without a content-length."""
    path, _, query = path.partition("?")
    chunks = [body] if isinstance(body, bytes) else list(body)
    if isinstance(body, bytes) and body:
        headers = {"content-length": str(len(body)), **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not chunks:
            return {"type": "http.disconnect"}
        chunk = chunks.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    (start,) = [message for message in sent if message["type"] == "http.response.start"]
    whole = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return Answer(start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, whole)
