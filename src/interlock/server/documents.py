"""The OpenAPI document: what FastAPI makes of the routes, and what is the same for all of them.

Rule: every answer that a route can give stands in it, refusals with their codes and an example each.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from interlock import __version__
from interlock.server.problems import CODES, PROBLEM_JSON, type_of
from interlock.server.shapes import Problem, StreamEvent

Responses = dict[int | str, dict[str, Any]]

ANY = ("host-not-allowed", "origin-not-allowed", "headers-too-large", "internal-error")
KEYED = ("no-key", "wrong-key", "missing-scope", "too-many-requests", "too-much-unread", "too-many-failures")
STORED = ("store-failed", "store-broken")
WITH_BODY = (
    "bad-json",
    "too-deep",
    "body-too-slow",
    "body-too-large",
    "not-json",
    "bad-body",
    "draining",
    "admission-closed",
)
ONCE = ("bad-idempotency-key", "idempotency-key-reused", "request-in-progress", "storage-full", "damaged-row")
GONE: Responses = {204: {"description": "It is gone."}}
OF_RUN = ("run-not-found", "run-deleted", "damaged-run", "bad-parameter")
ORDERED = ("order-pending", "order-refused", "order-lost")
MOVING_RUN = ("parent-is-over", *ORDERED, "not-owner", "out-of-order", "journal-diverged", "usage-error")


def looks(*codes: str) -> Responses:
    """Refusals of a route that only looks."""
    return refusals(*ANY, *KEYED, *STORED, *codes)


def does(*codes: str) -> Responses:
    """Refusals of a route that does something, and does it once."""
    return refusals(*ANY, *KEYED, *STORED, *WITH_BODY, *ONCE, "bad-parameter", *codes)


def takes_away(*codes: str) -> Responses:
    """Refusals of a route that takes something away, which needs no key to be done once."""
    return looks("bad-parameter", *WITH_BODY, "storage-full", *codes)


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
    """What programs that are made from the document call it."""
    return route.name


def leads_to(*operations: str) -> dict[str, Any]:
    """Where the run of an answer can be used."""
    return {
        name: {"operationId": name, "parameters": {"run": "$response.body#/id"}, "description": "With the run's id."}
        for name in operations
    }


STREAM = {"text/event-stream": {"schema": {"$ref": "#/components/schemas/StreamEvent"}}}

IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key and body again, within 24 hours, get the first answer and do nothing.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
}
LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The id of the last event that was seen; the stream goes on after it.",
    "schema": {"type": "string", "pattern": r"^([0-9]{1,18}(\.[0-9]{1,9})?)?$"},
}


def document_of(app: FastAPI, routes: Sequence[APIRoute], public_url: str = "") -> Callable[[], dict[str, Any]]:
    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, routes)
            if public_url:
                app.openapi_schema["servers"] = [{"url": public_url}]
        return app.openapi_schema

    return openapi


def _document(app: FastAPI, routes: Sequence[APIRoute]) -> dict[str, Any]:
    document = get_openapi(
        title="Interlock",
        version=__version__,
        description="Crews of language-model agents: start runs, watch them, answer them.",
        routes=app.routes,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = Problem.model_json_schema()
    schemas["StreamEvent"] = StreamEvent.model_json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    document["components"]["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "The key of the data folder, or a further one."}
    }
    for route in routes:
        for method in route.methods or ():
            _complete(document["paths"][route.path_format][method.lower()], route)
    return document


def _complete(operation: dict[str, Any], route: APIRoute) -> None:
    """What stands in no signature: scopes, headers, and that a refusal looks alike everywhere."""
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
