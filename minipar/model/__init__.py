"""The one transformer that everything here trains."""

from minipar.model.gpt import GPT, GPTConfig, Recompute, ties, token_loss

__all__ = ["GPT", "GPTConfig", "Recompute", "ties", "token_loss"]
