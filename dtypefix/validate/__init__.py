"""Running a patched tree in a real vLLM and saying what was shown."""
