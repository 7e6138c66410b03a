"""The gate's process."""

import asyncio
import logging
import resource

import uvicorn

from univarfl.deploy.gate.app import Gate
from univarfl.deploy.gate.authentication import Authentication
from univarfl.deploy.gate.callers.machines import Machines
from univarfl.deploy.gate.callers.memory import Memory
from univarfl.deploy.gate.callers.sites import Sites
from univarfl.deploy.gate.connections import IDLE_SECONDS, Connection
from univarfl.deploy.gate.holding import Messages
from univarfl.deploy.gate.listening import MOST_ACCEPTED, Server
from univarfl.deploy.gate.log import open_log
from univarfl.deploy.gate.mailboxes import Mailboxes
from univarfl.deploy.gate.superlink import SuperLinkConnections
from univarfl.deploy.places import CoordinatorPlace

BACKLOG = 256
END_SECONDS = 3  # for the requests that are under way when the gate is asked to end
OTHER_FILES = 256


def run_gate(place: CoordinatorPlace, listen: str, port: int, internal_port: int) -> None:
    """Stand between the sites and the SuperLink until this process is asked to end.

    Args:
        place: the certificate, the sites' keys and the log.
        listen: the address to listen on.
        port: the port to listen on.
        internal_port: the SuperLink's port on 127.0.0.1.
    """
    open_log(place.gate_log)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    allow_files(MOST_ACCEPTED + OTHER_FILES)
    asyncio.run(serve(place, listen, port, internal_port))


async def serve(place: CoordinatorPlace, listen: str, port: int, internal_port: int) -> None:
    """Serve until a signal asks for the end."""
    memory = Memory(place.gate_memory)
    authentication = Authentication(Sites(place.sites), memory)
    messages = Messages(Mailboxes(place.database))
    async with SuperLinkConnections(internal_port, place.authority) as superlink:
        gate = Gate(
            authentication, Machines(memory), superlink, messages, lambda: server.should_exit
        )
        server = Server(
            uvicorn.Config(
                gate,
                host=listen,
                port=port,
                http=Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=END_SECONDS,
                ssl_keyfile=place.key,
                ssl_certfile=place.certificate,
            )
        )
        await server.serve()


def allow_files(count: int) -> None:
    """Let this process open `count` files, or as many as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        most = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
