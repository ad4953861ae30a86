"""Simulated runs under virtual time with injected faults."""
