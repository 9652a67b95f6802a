"""The programs a runtime's interpreter runs. They may import torch and vLLM; nothing else here may import them."""
