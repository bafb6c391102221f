"""Readers: each turns one kind of source into a Config, and says where every value came from."""
