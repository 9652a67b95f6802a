"""The vLLM rule pack: one rule is one ``name.py`` beside its page ``name.md``."""
