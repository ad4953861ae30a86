"""Crews in Python: agents, routes and crews as users write them, checked like crew files."""
