"""Byte-span edits: composing, checking and writing them."""
