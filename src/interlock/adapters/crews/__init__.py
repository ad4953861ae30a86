"""Crew files on disk."""
