"""What the rules of this pack share, or are too long without: facts, and the questions of the larger rules."""
