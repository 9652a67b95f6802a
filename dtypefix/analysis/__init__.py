"""What a reviewer knows of the code: names, classes, scopes and where a dtype comes from."""
