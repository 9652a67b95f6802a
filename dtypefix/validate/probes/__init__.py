"""The programs a runtime's interpreter runs: they may import torch and vLLM, nothing else imports them."""
