"""The dashboard as part of the coordinator's process: its pages, its routes, and its background tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Response
from starlette.responses import RedirectResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from tocsin.coordinator.node import CoordinatorNode
from tocsin.dashboard.routes import router, sign_in_router
from tocsin.dashboard.wiring import Services

STATIC = Path(__file__).parent / "static"

#: The page may run only the scripts that were shipped with it, and talk only to this process.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class _Pages(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        # Files below assets/ have their content's hash in their names; pages that link to them must be asked for anew.
        lasting = path.startswith("assets/") and response.status_code == 200
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if lasting else "no-cache"
        return response


def dashboard(app: FastAPI, node: CoordinatorNode) -> AbstractAsyncContextManager[None]:
    """Add the dashboard to a coordinator. The returned context is to be entered while the coordinator runs."""
    services = Services.of(node)
    app.state.dashboard = services
    app.include_router(sign_in_router)
    app.include_router(router)
    app.add_api_route("/", _to_the_page, include_in_schema=False)
    app.mount("/dashboard", _Pages(directory=STATIC, html=True), name="dashboard")
    return _running(services)


async def _to_the_page() -> Response:
    return RedirectResponse("/dashboard/")


@asynccontextmanager
async def _running(services: Services) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(services.recorder.run())]
    if services.cluster is not None:
        tasks.append(asyncio.create_task(services.cluster.run()))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if services.cluster is not None:
            await services.cluster.close()
