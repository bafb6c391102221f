"""Bytes become accounts: a measurement, reconciled with what the objects of the process own."""
