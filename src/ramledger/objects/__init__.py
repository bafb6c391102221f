"""Python objects become owners: who holds what, how many are alive, under which names."""
