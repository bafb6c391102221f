"""Bytes by arithmetic: one formula a size."""
