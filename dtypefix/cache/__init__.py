"""Results of earlier runs, found again by the content of everything they depended on."""
