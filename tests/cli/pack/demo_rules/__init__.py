"""A rule pack for tests: its findings say themselves how severe they are and what their fix is."""
