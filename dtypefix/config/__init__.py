"""Settings: declared once as data, read from ``dtypefix.toml`` and ``pyproject.toml``, nearest first."""
