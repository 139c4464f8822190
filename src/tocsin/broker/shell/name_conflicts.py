"""What a broker is told that may not have its name, or has it no longer. Either way it has to end."""

from __future__ import annotations

import httpx
import msgspec

from tocsin.errors import AlreadyExists, InUse, RequestError, Superseded

#: Whoever is told one of these by the coordinator or the cluster must not go on: it would change what is another's.
ENDING = (AlreadyExists, Superseded)


def conflict_of(answer: httpx.Response) -> RequestError:
    """The error in an answer with status 409."""
    try:
        error = msgspec.json.decode(answer.content)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return RequestError(f"refused with status {answer.status_code}: {answer.text[:500]}")
    for kind in (AlreadyExists, Superseded, InUse):
        if code == kind.code:
            return kind(message)
    return RequestError(message)
