"""The routes of the page, and the server behind it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import mimetypes
import re
import socket
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from polinfer.core.errors import LONGEST_COMPLAINT, PolinferError, shorten
from polinfer.explore.limits import PRESETS, SETTINGS, check_problem, check_request, known_names, read_upload
from polinfer.explore.records import (
    MAX_HORIZON,
    MAX_SIDE,
    MAX_STATES,
    JobRequest,
    JobState,
    Kind,
    NamedProblem,
    OpenedProblem,
    ProblemRequest,
    Refusal,
    SaveRequest,
    decode,
)
from polinfer.explore.security import Guard, is_loopback, new_token
from polinfer.explore.session import Session
from polinfer.problems.tabular import save_table

PAGE = Path(__file__).parent / "page"
DEFAULT = NamedProblem("gridworld/multimodal", reward_scale=3.0)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEARTBEAT = 5.0  # seconds


class StartInfo(msgspec.Struct, frozen=True):
    """What the page needs to begin."""

    problem: ProblemRequest
    title: str
    presets: dict[str, str]
    names: list[str]
    version: str
    folder: str  # where run folders are saved
    source: str  # what was opened, as a Python expression: a problem, or a posterior
    source_is_run: bool
    settings: dict[str, dict[str, Any]]  # options of presets
    max_side: int = MAX_SIDE
    max_states: int = MAX_STATES
    max_horizon: int = MAX_HORIZON


@dataclass(frozen=True)
class Start:
    """What the server is started on."""

    problem: ProblemRequest = DEFAULT
    title: str = ""
    sources: tuple[tuple[str, str], ...] = ()  # digest and path of what was opened
    folder: Path = Path()  # where run folders are saved
    source: str = ""  # what was opened, as a Python expression
    is_run: bool = False


def check_installed() -> None:
    """Refuse to start without the extra packages."""
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise PolinferError(f"polinfer explore needs {package}: pip install 'polinfer[explore]'")


def make_app(session: Session, start: Start, *, token: str, host: str, port: int) -> Any:
    """Return the guarded application.

    ``GET /``, ``/static/...``
        The page.
    ``GET /api/start``
        `StartInfo`.
    ``POST /api/jobs``
        A `JobRequest`; answered with its `JobState`.
    ``GET /api/jobs/{key}``
        The record of a finished job (200), or the `JobState` of one that is not (202).
    ``DELETE /api/jobs``
        End what is being computed.
    ``POST /api/tables``
        A table file in JSON; answered with the `OpenedProblem` that stands for it.
    ``POST /api/save``
        A `SaveRequest`; writes a run folder.
    ``GET /api/events``
        Server-sent events, each a `JobState`.
    """
    from starlette.applications import Starlette  # noqa: PLC0415
    from starlette.requests import Request  # noqa: PLC0415
    from starlette.responses import Response, StreamingResponse  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415

    def reply(value: Any, status: int = 200) -> Response:
        body = value if isinstance(value, bytes) else msgspec.json.encode(value)
        return Response(body, status, media_type="application/json")

    def refusing(handler: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def handle(request: Request) -> Response:
            try:
                answer: Response = await handler(request)
                return answer
            except PolinferError as error:
                return reply(Refusal(shorten(str(error), LONGEST_COMPLAINT)), 422)

        return handle

    async def index(request: Request) -> Response:
        return Response((PAGE / "index.html").read_bytes(), media_type="text/html")

    async def static(request: Request) -> Response:
        wanted = request.path_params["path"]
        if wanted not in static_files():
            return reply(Refusal("there is no such file"), 404)
        kind = mimetypes.guess_type(wanted)[0] or "application/octet-stream"
        return Response((PAGE / wanted).read_bytes(), media_type=kind)

    async def begin(request: Request) -> Response:
        return reply(
            StartInfo(
                start.problem,
                start.title,
                PRESETS,
                known_names(),
                version("polinfer"),
                start.folder.name or ".",
                start.source,
                start.is_run,
                SETTINGS,
            )
        )

    @refusing
    async def submit(request: Request) -> Response:
        wanted = decode(await request.body(), JobRequest)
        check_request(wanted)
        return reply(session.submit(wanted))

    @refusing
    async def look(request: Request) -> Response:
        key = request.path_params["key"]
        record = session.record(key)
        if record is not None:
            return reply(record)
        state = session.state(key)
        if state is None:
            return reply(Refusal("nothing of that name was asked for"), 404)
        return reply(state, 202)

    @refusing
    async def stop(request: Request) -> Response:
        session.cancel()
        return reply({})

    @refusing
    async def upload(request: Request) -> Response:
        body = await request.body()
        digest = hashlib.blake2b(body, digest_size=12).hexdigest()
        path = Path(session.scratch.name) / f"{digest}.npz"
        await asyncio.to_thread(lambda: save_table(read_upload(body), path))
        session.sources[digest] = str(path)
        return reply(OpenedProblem(digest))

    @refusing
    async def save(request: Request) -> Response:
        wanted = decode(await request.body(), SaveRequest)
        kind: Kind = "given" if wanted.given else "answer"
        job = JobRequest(kind, wanted.problem, wanted.scale, wanted.given, seed=wanted.seed)
        check_request(job)
        return reply(session.save(job, save_folder(start.folder, wanted.name)))

    async def events(request: Request) -> Response:
        return StreamingResponse(_stream(session, request), media_type="text/event-stream")

    routes = [
        Route("/", index),
        Route("/static/{path:path}", static),
        Route("/api/start", begin),
        Route("/api/jobs", submit, methods=["POST"]),
        Route("/api/jobs", stop, methods=["DELETE"]),
        Route("/api/jobs/{key}", look),
        Route("/api/tables", upload, methods=["POST"]),
        Route("/api/save", save, methods=["POST"]),
        Route("/api/events", events),
    ]
    handlers: Any = {
        404: lambda request, error: reply(Refusal("there is no such address here"), 404),
        405: lambda request, error: reply(Refusal("there is no such method at this address"), 405),
    }
    inner: Any = Starlette(routes=routes, exception_handlers=handlers)
    inner.router.redirect_slashes = False
    return Guard(inner, token=token, host=host, port=port)


def static_files() -> set[str]:
    """Return the files of the page: nothing else is served, wherever a path may point."""
    return {str(path.relative_to(PAGE)) for path in PAGE.rglob("*") if path.suffix in (".js", ".css", ".svg")}


def save_folder(folder: Path, name: str) -> Path:
    """Return the folder to save into, a new one inside the one that the server was started on."""
    if not _NAME.fullmatch(name):
        raise PolinferError("a folder's name is made of letters, digits, '.', '_' and '-', 64 at most")
    path = folder / name
    if path.exists() or path.is_symlink():
        raise PolinferError(f"{name} exists already; choose another name")
    return path


async def _stream(session: Session, request: Any) -> AsyncIterator[bytes]:
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[JobState]()

    def hear(state: JobState) -> None:
        with contextlib.suppress(RuntimeError):  # The loop has closed: nobody listens any more.
            loop.call_soon_threadsafe(queue.put_nowait, state)

    leave = session.listen(hear)
    try:
        yield b"retry: 2000\n\n"
        for state in session.running():
            yield b"data: " + msgspec.json.encode(state) + b"\n\n"
        while not await request.is_disconnected():
            try:
                state = await asyncio.wait_for(queue.get(), _HEARTBEAT)
                yield b"data: " + msgspec.json.encode(state) + b"\n\n"
            except TimeoutError:
                yield b": still here\n\n"
    finally:
        leave()


@dataclass
class Serving:
    """A server that is running; `address` has the token in it."""

    address: str
    session: Session
    _server: Any

    def stop(self) -> None:
        """Ask it to end."""
        self._server.should_exit = True
        self._server.force_exit = True


def serve(
    start: Start,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    open_browser: bool = True,
    ready: Callable[[Serving], None] | None = None,
) -> None:
    """Serve the page until it is stopped.

    Parameters
    ----------
    start
        What to show first.
    host
        Loopback unless told otherwise.
    port
        A free one by default.
    open_browser
        Open the page in the browser of this machine.
    ready
        Called when the server can be reached.
    """
    check_installed()
    check_problem(start.problem)
    import uvicorn  # noqa: PLC0415

    bound = _bind(host, port)
    number = bound.getsockname()[1]
    token = new_token()
    shown = f"[{host}]" if ":" in host else socket.gethostname() if host in ("0.0.0.0", "::") else host
    with contextlib.closing(bound), Session(dict(start.sources)) as session:
        app = make_app(session, start, token=token, host=host, port=number)
        serving = Serving(f"http://{shown}:{number}/?token={token}", session, None)

        @asynccontextmanager
        async def announce(_: Any) -> AsyncIterator[None]:
            if ready is not None:
                ready(serving)
            if open_browser:
                await asyncio.to_thread(open_page, serving.address)
            yield

        app._app.router.lifespan_context = announce
        config = uvicorn.Config(
            app, log_level="error", access_log=False, lifespan="on", timeout_graceful_shutdown=1
        )
        serving._server = uvicorn.Server(config)
        serving._server.run(sockets=[bound])


def open_page(address: str) -> bool:
    """Open the browser; a machine without one is no error, since the address is printed."""
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


def _bind(host: str, port: int | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port or 0))
    except OverflowError:
        bound.close()
        raise PolinferError(f"--port must lie in 1..65535, got {port}") from None
    except OSError as error:
        bound.close()
        if port is not None and is_loopback(host):
            raise PolinferError(
                f"port {port} is taken or not allowed ({error.strerror}); leave out --port for a free one"
            ) from None
        raise PolinferError(f"--host {host}: cannot listen there ({error.strerror or error})") from None
    return bound
