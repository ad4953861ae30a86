"""Processes on one store: what each may drive, what one does for all, and what they ask of each other."""
