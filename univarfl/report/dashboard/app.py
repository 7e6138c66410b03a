"""The dashboard's addresses: the page, its files, the list of runs, and each run."""

import threading
from collections import OrderedDict
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from server_app.runs.records.record import RUN_JSON
from server_app.runs.records.tables import CLIENTS, EVENTS, PARQUET, ROUNDS
from univarfl.records.listing import read_listed
from univarfl.report.dashboard.access import Access
from univarfl.report.dashboard.details import details_of
from univarfl.report.dashboard.overview import Answer, Overview, Stamp, answer, stamp_of

WEB = Path(__file__).parent.parent / "web"
MOST_KEPT = 64  # answers about single runs
FILES = (RUN_JSON, ROUNDS, CLIENTS, PARQUET, EVENTS)


class Dashboard:
    """What the dashboard answers about the runs of a directory.

    Args:
        directory: the directory of the runs, or one run.
    """

    def __init__(self, directory: Path) -> None:
        self._overview = Overview(directory)
        self._overview.listed()  # so that the first page does not wait for a thousand records
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[tuple[list[Stamp], str], Answer]] = OrderedDict()

    def runs(self, request: Request) -> Response:
        """Return the table of the runs."""
        return reply(request, self._overview.listed())

    def run(self, request: Request) -> Response:
        """Return one run.

        Raises:
            HTTPException: there is no such run.
        """
        name = request.path_params["name"]
        directory = self._overview.directory_of(name)
        if directory is None:
            raise HTTPException(404)
        stamps = [stamp_of(directory / file) for file in FILES]
        status = read_listed(directory).status
        state = stamps, status
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or kept[0] != state:
                kept = state, answer(details_of(directory, status))
                self._kept[name] = kept
                if len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
        return reply(request, kept[1])


def reply(request: Request, found: Answer) -> Response:
    """Return an answer, without its content if the browser has it."""
    headers = {"ETag": found.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type="application/json")


def page(_: Request) -> Response:
    """Return the page; it holds nothing of a record."""
    return FileResponse(WEB / "dashboard.html", media_type="text/html; charset=utf-8")


def application(directory: Path, host: str, token: str) -> Starlette:
    """Return the dashboard as an ASGI application.

    Args:
        directory: the directory of the runs, or one run.
        host: the address or name that it listens on.
        token: what a request must know.
    """
    dashboard = Dashboard(directory)
    return Starlette(
        routes=[
            Route("/", page),
            Route("/api/runs", dashboard.runs),
            Route("/api/runs/{name}", dashboard.run),
            Mount("/web", StaticFiles(directory=WEB)),
        ],
        middleware=[Middleware(Access, host=host, token=token)],
    )
