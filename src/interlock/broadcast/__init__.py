"""Broadcasts: announcements that any agent may subscribe to. PURE."""

from interlock.broadcast.pattern import matches

__all__ = ["matches"]
