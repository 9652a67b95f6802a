"""Data: tiny model configurations and quantisation schemes, read by the planner."""
