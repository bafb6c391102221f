"""Names of owners: where walks begin, and what each object is called."""
