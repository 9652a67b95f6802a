from tests.cli.conftest import environment, run, site

__all__ = ["environment", "run", "site"]
