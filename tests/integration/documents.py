"""An HTTP API against its OpenAPI document: whatever is sent, the answer is one that the document tells of."""

from __future__ import annotations

from collections.abc import Callable

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import booleans
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

#: Changes a case before it is sent, and returns its headers: with what is known to be there, or as it was drawn.
Adapt = Callable[[schemathesis.Case, bool], dict[str, str] | None]


def check_document(
    url: str, adapt: Adapt, *, operations: int, examples: int, before_each: Callable[[], None] = lambda: None
) -> None:
    """Send `examples` of each operation, and the more the more examples Hypothesis's profile asks for; there must be so
    many `operations`."""
    document = schemathesis.openapi.from_url(f"{url}/openapi.json")
    found = [one.ok() for one in document.get_all_operations()]
    assert len(found) == operations
    # Removals last, so that the others find something to work on.
    for operation in sorted(found, key=lambda one: one.method.upper() == "DELETE"):
        before_each()

        @given(case=operation.as_strategy(), known=booleans())
        @settings(
            max_examples=max(1, examples * settings().max_examples // 100),
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        def send(case: schemathesis.Case, known: bool) -> None:
            headers = adapt(case, known)
            case.validate_response(case.call(headers=headers), checks=_CHECKS)

        send()
