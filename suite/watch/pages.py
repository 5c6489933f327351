"""The pages that are ours, by their addresses: the first one, sweeps, trials, comparisons, reports."""

import time
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from reports.charts import drawing
from reports.page import compare, live
from reports.page.live import Frame
from reports.page.trial_table import Asked, as_csv, chosen
from suite.tracking.schema.leaderboard_view import start_page
from suite.watch.views import Views
from trials.common.errors import UserError

SCRIPT = "/vega.js"
ALONE = {
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""What a browser is told of each of our pages."""


class Pages:
    """What is served of what `views` reads."""

    def __init__(self, views: Views) -> None:
        self.views = views
        bar = [("Sweeps and leaderboards", "/"), ("Compare", "/compare")]
        self.frame = Frame([*bar, ("MLflow", views.server + start_page())], SCRIPT)
        self._script = ""

    def routes(self) -> list[BaseRoute]:
        """The addresses."""
        sweep, trial = "/sweeps/{name}", "/sweeps/{name}/trials/{trial}"
        return [
            Route("/", self.home),
            Route(SCRIPT, self.script),
            Route("/compare", self.compare),
            Route(sweep, self.sweep),
            Route(f"{sweep}/parts", self.sweep_parts),
            Route(f"{sweep}/report", self.report),
            Route(f"{sweep}/trials.csv", self.csv),
            Route(trial, self.trial),
            Route(f"{trial}/parts", self.trial_parts),
        ]

    async def home(self, request: Request) -> Response:
        """All sweeps, and the leaderboards."""
        sweeps, boards, faults = await run_in_threadpool(self.views.home)
        return _page(live.home_page(sweeps, boards, self.frame, faults))

    async def sweep(self, request: Request) -> Response:
        """The live page of a sweep."""
        asked = Asked.of(request.query_params)

        def made() -> str:
            found = self.views.sweep(request.path_params["name"])
            return live.live_page(found, asked, self.frame)

        return await self._shown(made)

    async def sweep_parts(self, request: Request) -> Response:
        """What of it changes."""
        asked = Asked.of(request.query_params)

        def made() -> str:
            found = self.views.sweep(request.path_params["name"])
            return live.live_parts(found, asked)

        return await self._news(request, made)

    async def trial(self, request: Request) -> Response:
        """The page of a trial."""
        return await self._shown(
            lambda: live.trial_page(*self.views.trial(**request.path_params), self.frame)
        )

    async def trial_parts(self, request: Request) -> Response:
        """What of it changes."""
        return await self._news(
            request, lambda: live.trial_parts(*self.views.trial(**request.path_params))
        )

    async def csv(self, request: Request) -> Response:
        """The trials that pass the filter, as a file."""
        name = request.path_params["name"]
        try:
            found = await run_in_threadpool(self.views.sweep, name)
        except UserError as error:
            return PlainTextResponse(str(error), 404)
        text = as_csv(chosen(found.trials, Asked.of(request.query_params)))
        told = {**ALONE, "Content-Disposition": 'attachment; filename="trials.csv"'}
        return Response(text, media_type="text/csv; charset=utf-8", headers=told)

    async def report(self, request: Request) -> Response:
        """The report of a sweep, made of what the store has now."""
        return await self._shown(lambda: self.views.report(**request.path_params))

    async def compare(self, request: Request) -> Response:
        """Two sweeps side by side."""
        names = [request.query_params.get(key, "") for key in ("a", "b")]

        def made() -> str:
            first, second = map(self.views.compared, names)
            return compare.page(self.views.names(), first, second, self.frame)

        return await self._shown(made)

    async def script(self, request: Request) -> Response:
        """The chart library."""
        text = self._script = self._script or await run_in_threadpool(drawing.script)
        kept = {"Cache-Control": "max-age=86400"}
        return Response(text, media_type="text/javascript", headers=kept)

    async def _shown(self, made: Callable[[], str]) -> Response:
        """A page that is made beside; what is not there is said."""
        try:
            return _page(await run_in_threadpool(made))
        except UserError as error:
            return PlainTextResponse(str(error), 404)

    async def _news(self, request: Request, made: Callable[[], str]) -> Response:
        """What of a page changes; nothing where nothing has."""
        began, name = time.process_time(), request.path_params["name"]
        try:
            version = await run_in_threadpool(self.views.version, name)
            etag = f'W/"{hash((version, request.url.query))}"'
            if request.headers.get("if-none-match") == etag:
                return Response(status_code=304)
            html = await run_in_threadpool(made)
        except UserError as error:
            return PlainTextResponse(str(error), 404)
        took = f"{time.process_time() - began:.3f}"
        return HTMLResponse(html, headers={**ALONE, "ETag": etag, "X-Seconds": took})


def _page(page: str) -> Response:
    return HTMLResponse(page, headers=ALONE)
