"""Everything that a request passes before it reaches a route."""
