"""The arrays of a buffer: rows, columns, priorities, and where they live."""
