"""Adapters: one folder or file per external system."""
