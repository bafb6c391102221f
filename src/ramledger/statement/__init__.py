"""Bytes become accounts: a reading, accounts of its mappings, what objects claim, reconciled."""
