"""What the rules of this pack share, and the questions that the larger rules ask."""
