"""Saves in S3, GCS, Azure or another folder."""
