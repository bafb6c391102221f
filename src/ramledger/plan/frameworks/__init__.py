"""One module a framework: how its configs and scripts are read, and its defaults."""
