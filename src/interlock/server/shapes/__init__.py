"""Request and response bodies of the HTTP API, as the OpenAPI document shows them."""
