"""What to read: paths, a git checkout, standard input, an installed package or a release."""
