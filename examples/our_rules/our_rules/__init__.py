"""An example of a rule pack: one rule, its page, and nothing else."""
