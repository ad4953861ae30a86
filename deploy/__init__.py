"""How Interlock is put into operation: a service of systemd, and a demonstration of several workers."""
