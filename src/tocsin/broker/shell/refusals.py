"""What the cluster and the coordinator refuse a broker."""

from __future__ import annotations

import httpx

from tocsin.errors import AlreadyExists, Superseded, TocsinError, Unavailable, error_in, error_of

#: A broker that is refused so may not have its name, or has it no longer. It has to end, for it would change what is
#: another's.
ENDING = (AlreadyExists, Superseded)


def refusal_of(answer: httpx.Response, server: str) -> TocsinError:
    """The error in an answer: Unavailable for all that may be otherwise later."""
    error = error_of(error_in(answer.content, answer.status_code), answer.status_code)
    if not error.temporary and not answer.is_server_error:
        return error
    return Unavailable(f"{server}: {error.message}", retry_after_s=getattr(error, "retry_after_s", 1.0))
