"""Routes for dead letters: list them, publish them again, or discard them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Self

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from tocsin.cluster.api.dependencies import AnyCluster, ReadyCluster
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.datasets.tables import Table
from tocsin.cluster.feeds.core.letter_ids import LetterCursor, LetterId
from tocsin.cluster.feeds.dead_letters import (
    Chosen,
    discard_letters,
    find_letters,
    newest_letters,
    replay_dead_letters,
)
from tocsin.errors import NotFound
from tocsin.model.schema import SEQUENCE_COLUMN
from tocsin.runtime.http import ERRORS, reply

router = APIRouter(prefix="/v1/datasets/{dataset}/dead-letters", responses=ERRORS, tags=["feeds"])

_MAX_LISTED = 100
#: A dead letter can be as large as a body; the list shows this much of it.
_MAX_SHOWN_CHARACTERS = 4000

_Position = Annotated[int, Field(ge=-(1 << 63) + 1, le=(1 << 63) - 1)]
_Letter = Annotated[str, Field(max_length=40, examples=["4096:2"])]


class DeadLetter(BaseModel):
    id: str = Field(description="POSITION:LINE")
    position: int = Field(
        description="The position of its request in the landing log; below zero if the dead letter is a channel's"
    )
    line: int
    feed: str
    reason: str
    raw: str
    rejected_at: str


class DeadLetters(BaseModel):
    total: int
    dead_letters: list[DeadLetter]
    next: str = Field(description="The value of `after` for the next page; empty on the last")


class FoundLetters(BaseModel):
    dead_letters: list[DeadLetter]


class ChoiceRequest(BaseModel):
    """A choice of dead letters: single ones, or those of some requests."""

    model_config = ConfigDict(extra="forbid")

    letters: list[_Letter] | None = Field(None, max_length=1_000, description="By `id`")
    positions: list[_Position] | None = Field(
        None, max_length=100_000, description="All dead letters of these requests"
    )

    @model_validator(mode="after")
    def _in_one_way(self) -> Self:
        if self.letters is not None and self.positions is not None:
            raise ValueError("give either letters or positions")
        return self

    def chosen(self) -> Chosen:
        return Chosen(self.positions, None if self.letters is None else frozenset(map(LetterId.parse, self.letters)))


class DiscardRequest(ChoiceRequest):
    """Which dead letters to remove. All of them only if that is stated."""

    all: bool = False

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        if self.all == (self.letters is not None or self.positions is not None):
            raise ValueError("give letters, positions, or all: true")
        return self


class ReplayAnswer(BaseModel):
    replayed: int
    accepted: int
    rejected: int


class DiscardAnswer(BaseModel):
    discarded: int


@router.get("", response_model=DeadLetters)
def list_dead_letters(
    dataset: str,
    cluster: AnyCluster,
    limit: Annotated[int, Query(ge=1, le=1000)] = _MAX_LISTED,
    after: Annotated[str, Query(max_length=100, description="`next` of the previous page")] = "",
) -> Response:
    """Records that did not fit, or that a channel could not be run for, with the reason, newest first, page by page."""
    letters = _letters(cluster, dataset)
    page = newest_letters(letters, limit, LetterCursor.parse(after) if after else None)
    listed = [_described(letter, _MAX_SHOWN_CHARACTERS) for letter in page.letters]
    return reply({"total": letters.count(), "dead_letters": listed, "next": page.next})


@router.get("/{letter}", response_model=FoundLetters)
def show(dataset: str, letter: str, cluster: AnyCluster) -> Response:
    """One dead letter, complete. If several channels could not be run for one record, there is one for each."""
    found = find_letters(_letters(cluster, dataset), LetterId.parse(letter))
    if not found:
        raise NotFound(f"dataset {dataset} has no dead letter {letter}")
    return reply({"dead_letters": [_described(one) for one in found]})


@router.post("/replay", response_model=ReplayAnswer)
async def replay(dataset: str, cluster: ReadyCluster, body: ChoiceRequest | None = None) -> Response:
    """Publish dead letters again, for example after their schema has got a column or a limit was raised."""
    name = cluster.catalogue.dataset(dataset).name
    chosen = Chosen() if body is None else body.chosen()
    return reply(await asyncio.to_thread(replay_dead_letters, cluster.store[name], cluster.intake, chosen))


@router.post("/discard", response_model=DiscardAnswer)
async def discard(dataset: str, body: DiscardRequest, cluster: ReadyCluster) -> Response:
    """Remove dead letters for good, for example after they were corrected and published again."""
    letters = _letters(cluster, dataset)
    return reply({"discarded": await asyncio.to_thread(discard_letters, letters, body.chosen(), dataset)})


def _letters(cluster: Cluster, dataset: str) -> Table:
    return cluster.store[cluster.catalogue.dataset(dataset).name].dead_letters


def _described(letter: dict[str, Any], most_characters: int | None = None) -> dict[str, Any]:
    raw = letter["raw"]
    if most_characters is not None and len(raw) > most_characters:
        raw = raw[:most_characters] + "…"
    described = {name: value for name, value in letter.items() if name != SEQUENCE_COLUMN}
    return {"id": str(LetterId(letter["position"], letter["line"])), **described, "raw": raw}
