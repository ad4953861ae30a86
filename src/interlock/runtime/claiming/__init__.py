"""Runs that wait for a driver: claimed within the capacity of this process, handed over when it has too many."""
