"""Output of commands: live view, transcript, tables."""
