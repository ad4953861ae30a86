"""Typed results: the value in a reply, and what happens to a reply without a valid one. PURE."""
