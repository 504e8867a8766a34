"""The one transformer that everything here trains."""

from minipar.model.gpt import GPT, GPTConfig, token_loss

__all__ = ["GPT", "GPTConfig", "token_loss"]
