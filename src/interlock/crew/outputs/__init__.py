"""Schemas of outputs: which are allowed, which fit which, and which agents are asked for one."""
