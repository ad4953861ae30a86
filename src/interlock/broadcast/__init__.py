"""Announcements any agent may hear. PURE."""

from interlock.broadcast.pattern import matches

__all__ = ["matches"]
