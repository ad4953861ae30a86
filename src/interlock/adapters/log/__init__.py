"""The log of a process."""
