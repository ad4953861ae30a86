"""Runs over time: resumed, parked, supervised, with children and deadlines."""
