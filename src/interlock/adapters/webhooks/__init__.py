"""Webhooks: signatures, sending, verification."""
