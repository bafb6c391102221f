"""Replay buffers that the program has written itself, recognized by what they hold."""
