"""The page of a run, and the server that shows it live."""
