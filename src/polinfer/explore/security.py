"""Who may talk to the server: the holder of the token, from a page of this server, under this host's name."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

import msgspec

from polinfer.explore.records import MAX_BODY, MAX_UPLOAD, Refusal

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
UPLOAD_PATH = "/api/tables"

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(24)


class Guard:
    """Middleware that refuses, with one sentence, whatever did not come from our own page.

    Parameters
    ----------
    app
        What is guarded.
    token
        The secret of the printed address; it is kept in a cookie after the first visit.
    host, port
        What the server listens on.
    """

    def __init__(self, app: App, *, token: str, host: str, port: int) -> None:
        self._app, self._token, self._host, self._port = app, token, host, port
        self._cookie = f"polinfer-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        entering = self._is_entrance(scope)
        refusal = self._refuse(scope, headers, entering)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        body = _BoundedBody(receive, _most(scope))

        async def guarded(message: dict[str, Any]) -> None:
            if body.exceeded:
                return
            if message["type"] == "http.response.start":
                held = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                if entering:
                    cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
                    held.append((b"set-cookie", cookie.encode()))
                message = {**message, "headers": [*message.get("headers", []), *held]}
            await send(message)

        try:
            await self._app(scope, body.receive, guarded)
        except TooLargeBodyError:
            await _refuse(send, 413, _too_large(scope))

    def _refuse(self, scope: Scope, headers: dict[str, str], entering: bool) -> tuple[int, str] | None:
        if not self._is_own_host(headers.get("host", "")):
            return 421, "this server does not answer to that host name; use the address that it printed"
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{headers['host']}":
            return 403, "requests from other sites are refused"
        from_elsewhere = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if from_elsewhere and scope["path"] != "/":
            return 403, "requests from other sites are refused"
        if not entering and not self._has_cookie(headers.get("cookie", "")):
            return 401, "the token is missing or old; open the address that polinfer explore printed"
        if scope["method"] not in ("GET", "HEAD", "POST", "DELETE"):
            return 405, "that method is not understood here"
        if scope["method"] == "POST" and headers.get("content-type", "").split(";")[0] != "application/json":
            return 415, "requests must be JSON"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > _most(scope):
            return 413, _too_large(scope)
        return None

    def _is_entrance(self, scope: Scope) -> bool:
        """Whether this is the page itself, asked for with the token in its address."""
        if scope["path"] != "/" or scope["method"] not in ("GET", "HEAD"):
            return False
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        return hmac.compare_digest(given.encode(), self._token.encode())

    def _has_cookie(self, header: str) -> bool:
        try:
            found = SimpleCookie(header).get(self._cookie)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), self._token.encode())

    def _is_own_host(self, header: str) -> bool:
        """Whether the Host header names this server: by an address, or by a name that is ours for sure."""
        name, _, port = header.rpartition(":") if not header.endswith("]") else (header, "", "80")
        if not name:
            name, port = header, "80"
        if port != str(self._port):
            return False
        name = name.strip("[]").lower()
        if name in ("localhost", self._host.lower()):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            # A name that somebody's DNS leads here: only our own, and only where we listen to others.
            return not is_loopback(self._host) and name == socket.gethostname().lower()
        return address.is_loopback or not is_loopback(self._host)


class TooLargeBodyError(Exception):
    """More came than was announced."""


def is_loopback(host: str) -> bool:
    """Return whether a host is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _BoundedBody:
    """A body that may not be longer than it should be, whatever was announced."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._left = receive, most
        self.exceeded = False

    async def receive(self) -> dict[str, Any]:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.exceeded = True
            raise TooLargeBodyError
        return message


def _most(scope: Scope) -> int:
    return MAX_UPLOAD if scope["path"] == UPLOAD_PATH else MAX_BODY


def _too_large(scope: Scope) -> str:
    return f"a request may have at most {_most(scope):,} bytes"


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = msgspec.json.encode(Refusal(sentence))
    headers = {**HEADERS, "content-type": "application/json", "content-length": str(len(body))}
    held = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": held})
    await send({"type": "http.response.body", "body": body})
