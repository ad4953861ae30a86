"""Calls the function of a route directly: FastAPI's own steps around it cost more than most answers.

Rule 1: FastAPI has the routes, their fields and the OpenAPI document. Here a request is bound to the same fields.
Rule 2: a request that is not plain goes to FastAPI: one without a route, or with a value that is not valid. So every
refusal has one form.
"""

import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any, NamedTuple, get_origin

from fastapi.dependencies.models import Dependant
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.errors import InterlockError
from interlock.server.http.strict_routes import StrictRoute

# A parameter: its name in the function, its name in the request, and its check.
Field = tuple[str, str, Callable[[Any], tuple[Any, list[Any]]]]
NO_BODY = "there is no body"

# Answers an error of a route.
OnError = Callable[[Request, Exception], Awaitable[Response]]


class DirectRoute:
    """A route whose function can be called with values from the path, defaults of the query, and the body."""

    def __init__(self, route: StrictRoute) -> None:
        found = route.dependant
        assert found.call is not None, "a route has a function"
        self.route, self.match_path, self._call = route, route.path_regex.match, found.call
        self._checks = [each.call for each in found.dependencies if each.call is not None]
        self._path = [(field.name, field.alias, field.validate) for field in found.path_params]
        self._query = [(field.name, field.alias, field.validate) for field in found.query_params]
        self._defaults = {field.name: field.get_default() for field in found.query_params}
        self._request_name, self._body = found.request_param_name, route.body_field

    async def respond(self, request: Request, path_values: dict[str, str]) -> Response | None:
        """The response of the function; None if a value is not valid, so that FastAPI refuses it."""
        self.route.require_expected(request)
        for check in self._checks:
            await check(request)
        given = {**self._defaults}
        faults = _validate_into(given, self._path, path_values)
        if request.scope["query_string"]:
            faults = faults or _validate_into(given, self._query, request.query_params)
        if self._body is not None and not faults:
            body: bytes = request.state.body
            given[self._body.name], faults = self._body.validate(json.loads(body)) if body else (None, [NO_BODY])
        if faults:
            return None
        if self._request_name is not None:
            given[self._request_name] = request
        response: Response = await self._call(**given)
        return response


def _validate_into(given: dict[str, Any], fields: Sequence[Field], values: Mapping[str, str]) -> list[Any]:
    """Adds the values of the fields that are there; returns what is wrong with one of them."""
    for name, alias, validate in fields:
        if alias in values:
            given[name], faults = validate(values[alias])
            if faults:
                return faults
    return []


class FoundRoute(NamedTuple):
    route: DirectRoute
    path_values: dict[str, str]


class DirectRoutes:
    """An ASGI application in front of FastAPI."""

    def __init__(
        self, app: ASGIApp, routes: Sequence[StrictRoute], *, on_refusal: OnError, on_internal_error: OnError
    ) -> None:
        self.app, self._on_refusal, self._on_internal_error = app, on_refusal, on_internal_error
        # By method and the first two parts of the path, in FastAPI's order; None for one that FastAPI calls itself.
        self._routes: dict[tuple[str, str], list[tuple[StrictRoute, DirectRoute | None]]] = defaultdict(list)
        for route in routes:
            direct = DirectRoute(route) if _is_plain(route) else None
            for method in route.methods or ():
                self._routes[method, _place_of(route.path)].append((route, direct))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._find_route(scope["method"], scope["path"])
        if found is None:
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        scope["route"] = found.route.route  # metrics count requests by it
        try:
            response = await found.route.respond(request, found.path_values)
        except InterlockError as error:
            response = await self._on_refusal(request, error)
        except Exception as error:
            await (await self._on_internal_error(request, error))(scope, receive, send)
            raise  # the guard logs it
        if response is None:
            await self.app(scope, receive, send)
        else:
            await response(scope, receive, send)

    def _find_route(self, method: str, path: str) -> FoundRoute | None:
        for route, direct in self._routes.get((method, _place_of(path)), ()):
            if (values := route.path_regex.match(path)) is not None:
                return FoundRoute(direct, values.groupdict()) if direct is not None else None
        return None


def _place_of(path: str) -> str:
    """The first two parts of a path, which no route has as a parameter: `/v1/runs`."""
    return "/".join(path.split("/", 3)[:3])


def _is_plain(route: StrictRoute) -> bool:
    """True if the function needs no more than a `DirectRoute` gives it."""
    found = route.dependant
    infos = [field.field_info for field in found.query_params]
    has_defaults = not any(info.is_required() or _is_list(info.annotation) for info in infos)
    has_strings = all(convertor.regex == "[^/]+" for convertor in route.param_convertors.values())
    return (
        iscoroutinefunction(found.call)
        and has_defaults
        and has_strings
        and not (found.header_params or found.cookie_params)
        and len(found.body_params) <= 1
        and all(_needs_request_only(each) for each in found.dependencies)
    )


def _is_list(field_type: object) -> bool:
    """True if a request may give several values of such a parameter."""
    return get_origin(field_type) in (list, set, tuple, frozenset)


def _needs_request_only(check: Dependant) -> bool:
    fields = (check.path_params, check.query_params, check.header_params, check.cookie_params, check.body_params)
    return iscoroutinefunction(check.call) and check.request_param_name == "request" and not any(fields)
