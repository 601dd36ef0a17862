"""Probes: one function per kind of hardware, over an injected reader and facades."""
