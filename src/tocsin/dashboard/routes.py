"""The page's routes beside the coordinator's own API. Operators may do everything here, viewers may read."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from tocsin import __version__
from tocsin.coordinator.api.dependencies import Node, Role, operator_only
from tocsin.coordinator.registry.instructions import Audit
from tocsin.dashboard.cluster_watch import ClusterWatch
from tocsin.dashboard.trial import Relay
from tocsin.dashboard.wiring import Services
from tocsin.errors import NotFound
from tocsin.model.catalogue import ParameterValue
from tocsin.runtime.http import reply

#: The history has half an hour second by second, and a day minute by minute.
_MAX_BACK_S = 24 * 3600
_NO_STORE = {"Cache-Control": "no-store"}

router = APIRouter(prefix="/dashboard/api", include_in_schema=False, dependencies=[Depends(operator_only)])

_CatalogueName = Annotated[str, Field(min_length=1, max_length=255)]
_By = Annotated[str, Field(min_length=1, max_length=64)]


class PauseRequest(BaseModel):
    channel: _CatalogueName
    paused: bool
    by: _By = "dashboard"


class LettersRequest(BaseModel):
    """Some dead letters of a dataset, by their ids, or all."""

    dataset: _CatalogueName
    letters: list[Annotated[str, Field(max_length=40)]] | None = Field(None, max_length=1000)
    by: _By = "dashboard"


class TrialRequest(BaseModel):
    channel: _CatalogueName
    parameters: dict[str, ParameterValue] = Field({}, max_length=100)


def _services_of(request: Request) -> Services:
    services = request.app.state.dashboard
    assert isinstance(services, Services)
    return services


_Services = Annotated[Services, Depends(_services_of)]


def _cluster_of(services: _Services) -> ClusterWatch:
    if services.cluster is None:
        raise NotFound("this coordinator knows no data cluster; see the setting cluster_url")
    return services.cluster


_Cluster = Annotated[ClusterWatch, Depends(_cluster_of)]


#: Routes for callers that have not signed in yet.
sign_in_router = APIRouter(prefix="/dashboard/api", include_in_schema=False)


@sign_in_router.get("/sign-in")
async def sign_in(node: Node) -> Response:
    """Whether a token is needed."""
    return _reply({"needs_token": bool(node.settings.api_token)})


@router.get("/me")
async def me(node: Node, services: _Services, role: Annotated[Role, Depends(operator_only)]) -> Response:
    """The caller's role, and what the page can show."""
    return _reply(
        {
            "role": role,
            "needs_token": bool(node.settings.api_token),
            "version": __version__,
            "has_cluster": services.cluster is not None,
            "has_roads": bool(services.roads),
        }
    )


@router.get("/live")
async def live(services: _Services) -> Response:
    """The state of the network now."""
    return Response(services.recorder.now(), media_type="application/json", headers=_NO_STORE)


@router.get("/history")
async def history(
    node: Node, services: _Services, back_s: Annotated[int, Query(ge=10, le=_MAX_BACK_S)] = 900
) -> Response:
    """The history of the last `back_s` seconds."""
    since_s = node.clock.now_us() / 1e6 - back_s
    return _reply(await asyncio.to_thread(services.recorder.history.read, since_s))


@router.get("/policies")
async def policies(node: Node) -> Response:
    """The names of policies, by stage."""
    # The first call imports the compiler. Not in a thread: a plan made at that moment would find it half imported.
    known = node.balancer.planning.policies
    return _reply({"placement": node.state.policies, **{str(stage): sorted(names) for stage, names in known.items()}})


@router.get("/locations")
async def locations(services: _Services, version: Annotated[int, Query(ge=-1, le=1 << 53)] = -1) -> Response:
    """Subscribers' locations and brokers; with names only if `version` is not the current one."""
    return _reply(services.locations.now(version))


@router.get("/roads")
async def roads(services: _Services) -> Response:
    """Lines to draw below the map."""
    if not services.roads:
        raise NotFound("no roads were given; see the setting map_roads")
    return Response(services.roads, media_type="application/json", headers={"Cache-Control": "private, max-age=3600"})


@router.get("/cluster")
async def cluster(watch: _Cluster) -> Response:
    """Channels, feeds and datasets."""
    return _reply(watch.now())


@router.get("/events")
async def events(
    watch: _Cluster,
    dataset: Annotated[str, Query(min_length=1, max_length=255)],
    after: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 200,
) -> Response:
    """The newest rows of a dataset with locations."""
    return _reply(await watch.events(dataset, after, limit))


@router.post("/channels")
async def pause(body: PauseRequest, watch: _Cluster, node: Node) -> Response:
    """Pause a channel, or resume it."""
    message = await watch.pause(body.channel, paused=body.paused)
    await node.audit(Audit(body.by, "pause" if body.paused else "resume", body.channel))
    return _reply({"message": message})


@router.get("/dead-letters")
async def dead_letters(
    watch: _Cluster,
    dataset: Annotated[str, Query(min_length=1, max_length=255)],
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Records that did not fit, newest first, page by page."""
    return _reply(await watch.dead_letters(dataset, limit, after))


@router.post("/dead-letters/replay")
async def replay(body: LettersRequest, watch: _Cluster, node: Node) -> Response:
    """Publish dead letters again."""
    answer = await watch.replay(body.dataset, body.letters)
    await node.audit(Audit(body.by, "replay", body.dataset, answer))
    return _reply(answer)


@router.post("/dead-letters/discard")
async def discard(body: LettersRequest, watch: _Cluster, node: Node) -> Response:
    """Remove dead letters for good."""
    answer = await watch.discard(body.dataset, body.letters)
    await node.audit(Audit(body.by, "discard", body.dataset, answer))
    return _reply(answer)


@router.post("/try")
async def try_channel(body: TrialRequest, services: _Services) -> Relay:
    """Subscribe, and stream notifications until the page goes away."""
    return await services.trials.begin(body.channel, body.parameters)


def _reply(value: Any) -> Response:
    return reply(value, headers=_NO_STORE)
