"""The dashboard's server: it listens, prints its address, and ends with Ctrl-C."""

import contextlib
import secrets
import socket
from pathlib import Path

import uvicorn

from task.errors import ConfigError, system_reason
from univarfl.report.dashboard.access import TOKEN, is_loopback
from univarfl.report.dashboard.app import application

TOKEN_BYTES = 32
END_SECONDS = 1  # for the requests that are under way


def serve(directory: Path, host: str, port: int) -> None:
    """Serve the dashboard of a directory until it is interrupted.

    Args:
        directory: the directory of the runs, or one run.
        host: the address or name to listen on.
        port: the port to listen on; 0 for any free one.

    Raises:
        ConfigError: the directory is none, or the address cannot be listened on.
    """
    if not directory.is_dir():
        raise ConfigError("runs", directory, "there is no such directory; name one with runs")
    token = secrets.token_urlsafe(TOKEN_BYTES)
    listening = listen(host, port)
    print(f"runs in {directory}\n{address(host, listening.getsockname()[1], token)}", flush=True)
    print("Whoever has this address can read the records while this command runs.", flush=True)
    if not is_loopback(host):
        print(
            "It is not encrypted: use it in a network that you trust, or use an SSH tunnel to a "
            "dashboard without --host.",
            flush=True,
        )
    config = uvicorn.Config(
        application(directory.resolve(), host, token), log_level="error", access_log=False,
        ws="none", lifespan="off", server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=END_SECONDS,
    )  # fmt: skip
    with contextlib.suppress(KeyboardInterrupt):  # the usual end of a dashboard
        uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ConfigError: the address is not this machine's, or the port is in use.
    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ConfigError("--host", host, f"cannot be found: {system_reason(error)}") from None
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(place)
    except OSError as error:
        listening.close()
        allowed = f"cannot be listened on at {host}: {system_reason(error)}; choose another"
        raise ConfigError("--port", port, allowed) from None
    listening.listen()
    return listening


def address(host: str, port: int, token: str) -> str:
    """Return the address to open in a browser."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 (it is compared, not listened on)
        host = socket.gethostname()
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/?{TOKEN}={token}"
