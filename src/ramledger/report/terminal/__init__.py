"""Views in a terminal: plain text and rich."""
