"""Ray clusters: what every process and node reports."""
