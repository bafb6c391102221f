"""One module a framework: its defaults, its formulas, and how its configs and scripts are read."""
