"""The work of a process on the runs of its store: claims, deadlines, and what one process does for all."""
