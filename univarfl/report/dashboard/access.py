"""Who may read the dashboard: the Host header, the token, and headers that bind the browser."""

import hashlib
import ipaddress
import secrets
import socket
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from univarfl.deploy.places import is_ip

TOKEN = "token"  # noqa: S105 - the name of a parameter
LOCAL = "localhost"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Access:
    """Middleware that answers only requests that may be answered.

    A page of another site can have its name resolve to this machine (DNS rebinding). Its requests
    then name that site as host, so only addresses and this machine's own names are answered.

    Args:
        app: the application behind it.
        host: the address or name that is listened on.
        token: what a request must know. Other users of this machine can reach it, too.
    """

    def __init__(self, app: ASGIApp, host: str, token: str) -> None:
        self._app, self._names, self._token = app, {*map(str.lower, own_names(host))}, token
        self._is_own_address = is_loopback if is_loopback(host) else is_ip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self._refusal(Request(scope))
        await (refused or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that must not reach the application."""
        if not self._is_own(request.headers.get("host", "")):
            return PlainTextResponse("this host name is not served here\n", 421)
        if is_token(request.cookies.get(cookie_of(self._token), ""), self._token):
            return None
        if not is_token(request.query_params.get(TOKEN, ""), self._token):
            return PlainTextResponse("open the address that 'univarfl dashboard' printed\n", 401)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(cookie_of(self._token), self._token, httponly=True, samesite="strict")
        return answer

    def _is_own(self, host: str) -> bool:
        """Return whether a Host header names this machine: by address, or by a name it has."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        return name in self._names or self._is_own_address(name)


def cookie_of(token: str) -> str:
    """Return the name of the cookie with a dashboard's token.

    A browser sends a cookie to every port of a host, so each dashboard has a name of its own.
    """
    return f"univarfl_{hashlib.sha256(token.encode()).hexdigest()[:8]}"


def is_token(given: str, token: str) -> bool:
    """Return whether a text is the token; the time does not depend on where they differ."""
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode())


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address or a name."""
    return host == LOCAL or (is_ip(host) and ipaddress.ip_address(host).is_loopback)


def own_names(host: str) -> set[str]:
    """Return the names under which a browser may reach a host that is listened on."""
    return {host, LOCAL} if is_loopback(host) else {host, LOCAL, socket.gethostname()}
