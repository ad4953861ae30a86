"""The OpenAPI document: made by FastAPI from the routes, plus the parts that all routes share.

Rule: it has every answer of every route, refusals with their codes and an example of each.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from interlock import __version__
from interlock.server.http.problems import CODES, PROBLEM_JSON, type_of
from interlock.server.shapes.runs import StreamEvent
from interlock.server.shapes.service import ProblemBody

Responses = dict[int | str, dict[str, Any]]

COMMON_CODES = ("host-not-allowed", "origin-not-allowed", "headers-too-large", "internal-error")
AUTH_CODES = ("no-key", "wrong-key", "missing-scope", "too-many-requests", "too-much-unread", "too-many-failures")
STORE_CODES = ("store-failed", "store-broken")
BODY_CODES = (
    "bad-json",
    "too-deep",
    "body-too-slow",
    "body-too-large",
    "not-json",
    "bad-body",
    "draining",
    "admission-closed",
)
IDEMPOTENCY_CODES = (
    "bad-idempotency-key",
    "idempotency-key-reused",
    "request-in-progress",
    "storage-full",
    "damaged-row",
)
NO_CONTENT: Responses = {204: {"description": "Deleted."}}
RUN_CODES = ("run-not-found", "run-deleted", "damaged-run", "bad-parameter")
ORDER_CODES = ("order-pending", "order-refused", "order-lost")
RUN_CHANGE_CODES = (
    "parent-is-over",
    *ORDER_CODES,
    "not-owner",
    "out-of-order",
    "journal-diverged",
    "host-lacks",
    "usage-error",
)


def refusals_of_read(*codes: str) -> Responses:
    """Refusals of a route that only reads."""
    return refusals(*COMMON_CODES, *AUTH_CODES, *STORE_CODES, *codes)


def refusals_of_write(*codes: str) -> Responses:
    """Refusals of a route that changes something, at most once per idempotency key."""
    return refusals(*COMMON_CODES, *AUTH_CODES, *STORE_CODES, *BODY_CODES, *IDEMPOTENCY_CODES, "bad-parameter", *codes)


def refusals_of_delete(*codes: str) -> Responses:
    """Refusals of a route that deletes, which needs no idempotency key."""
    return refusals_of_read("bad-parameter", *BODY_CODES, "storage-full", *codes)


def refusals(*codes: str) -> Responses:
    by_status: dict[int, list[str]] = defaultdict(list)
    for code in dict.fromkeys(codes):
        by_status[CODES[code][0]].append(code)
    return {status: _refusal(status, found) for status, found in sorted(by_status.items())}


def _refusal(status: int, codes: list[str]) -> dict[str, Any]:
    examples = {code: {"summary": CODES[code][1], "value": _example(code)} for code in codes}
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": examples}}
    answer: dict[str, Any] = {"description": ", ".join(f"`{code}`" for code in codes), "content": content}
    if status in (202, 429, 503, 507):
        answer["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}}
    return answer


def _example(code: str) -> dict[str, Any]:
    status, title = CODES[code]
    return {
        "type": type_of(code),
        "title": title,
        "status": status,
        "detail": "what, which, and what now",
        "code": code,
    }


def operation_id(route: APIRoute) -> str:
    """The name of an operation in generated clients."""
    return route.name


def run_links(*operations: str) -> dict[str, Any]:
    """Links from an answer to operations on its run."""
    return {
        name: {"operationId": name, "parameters": {"run": "$response.body#/id"}, "description": "With the run's id."}
        for name in operations
    }


STREAM = {"text/event-stream": {"schema": {"$ref": "#/components/schemas/StreamEvent"}}}

IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key and body again, within 24 hours, get the first answer and have no further effect.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
}
LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The id of the last event that was seen; the stream continues after it.",
    "schema": {"type": "string", "pattern": r"^([0-9]{1,18}(\.[0-9]{1,9})?)?$"},
}


def openapi_builder(app: FastAPI, routes: Sequence[APIRoute], public_url: str = "") -> Callable[[], dict[str, Any]]:
    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _openapi_document(app, routes)
            if public_url:
                app.openapi_schema["servers"] = [{"url": public_url}]
        return app.openapi_schema

    return openapi


def _openapi_document(app: FastAPI, routes: Sequence[APIRoute]) -> dict[str, Any]:
    document = get_openapi(
        title="Interlock",
        version=__version__,
        description="Crews of language-model agents: start runs, watch them, answer them.",
        routes=app.routes,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = ProblemBody.model_json_schema()
    schemas["StreamEvent"] = StreamEvent.model_json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    document["components"]["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "The key of the data folder, or an additional one."}
    }
    for route in (each for each in routes if each.include_in_schema):
        for method in route.methods or ():
            _complete_operation(document["paths"][route.path_format][method.lower()], route)
    return document


def _complete_operation(operation: dict[str, Any], route: APIRoute) -> None:
    """Adds what no signature has: scopes, headers, and one form for all refusals."""
    invalid = operation["responses"].get("422", {}).get("content", {})
    if "application/json" in invalid:
        del operation["responses"]["422"]
    scope = next((getattr(d.dependency, "scope", None) for d in route.dependencies), None)
    if scope is not None:
        operation["security"] = [{"key": []}]
    if scope:
        operation["description"] = f"{operation.get('description', '')}\n\nNeeds the scope `{scope}`.".strip()
    parameters = operation.setdefault("parameters", [])
    refused = operation["responses"].get("400", {}).get("content", {}).get(PROBLEM_JSON, {})
    if "bad-idempotency-key" in refused.get("examples", {}):
        parameters.append(IDEMPOTENCY_KEY)
    if "text/event-stream" in operation["responses"].get("200", {}).get("content", {}):
        parameters.append(LAST_EVENT_ID)
