"""Statements and findings on a screen, in a page, as JSON. Takes data, never a machine."""
