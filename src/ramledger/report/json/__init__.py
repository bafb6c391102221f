"""Views for machines: JSON documents and OpenMetrics."""
