"""The one transformer that everything here trains."""

from minipar.model.gpt import GPT, GPTConfig, ties, token_loss
from minipar.recompute import Recompute

__all__ = ["GPT", "GPTConfig", "Recompute", "ties", "token_loss"]
