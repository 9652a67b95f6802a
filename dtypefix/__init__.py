"""Find, repair and prove tensor-dtype faults in code built on vLLM."""

__version__ = "0.1.0"
