"""Bytes in, findings out, for one file at a time."""
