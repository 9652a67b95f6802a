"""The editor server. It needs the optional dependency ``dtypefix[lsp]``."""
