"""Stores by their kind: how each is named, opened, locked and measured."""
