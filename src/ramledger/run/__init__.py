"""Events become one model of a run: series, iterations, phases, processes."""
