"""Bytes become accounts: readings, claims, reconciliation, statements."""
