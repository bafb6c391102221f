"""Saves of a buffer: incremental, crash-safe, verified when loaded."""
