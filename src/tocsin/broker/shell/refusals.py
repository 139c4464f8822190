"""Refusals that a broker gets from the cluster and the coordinator."""

from __future__ import annotations

import httpx

from tocsin.errors import AlreadyExists, Superseded, TocsinError, Unavailable, error_in, error_of

#: With these refusals a broker may not have its name, or has it no longer. It has to end, for it would change another
#: broker's data.
ENDING = (AlreadyExists, Superseded)


def refusal_of(answer: httpx.Response, server: str) -> TocsinError:
    """The error in an answer: Unavailable if a later attempt may succeed."""
    error = error_of(error_in(answer.content, answer.status_code), answer.status_code)
    if not error.temporary and not answer.is_server_error:
        return error
    return Unavailable(f"{server}: {error.message}", retry_after_s=getattr(error, "retry_after_s", 1.0))
