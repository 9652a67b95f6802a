"""Findings of two or more versions of the same code, laid beside each other."""
