"""A validation as a table, as JSON, as a page for a pull request and as a test."""
