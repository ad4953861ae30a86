"""Effects of runs: model calls, tool calls, reservations, external signals."""
