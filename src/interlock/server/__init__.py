"""Interlock for programs elsewhere: what speaks a protocol with them."""
