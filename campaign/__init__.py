"""The long runs: processes killed thousands of times, and what must still hold afterwards."""
