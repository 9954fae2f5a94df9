"""Text from a model: options, rules on logits, cached generation."""

from ctrl_jax.decoding.continuation import Generation, generate
from ctrl_jax.decoding.generator import Generator
from ctrl_jax.decoding.next_tokens import NextToken, next_tokens
from ctrl_jax.decoding.options import GenerationOptions

__all__ = [
    "Generation",
    "GenerationOptions",
    "Generator",
    "NextToken",
    "generate",
    "next_tokens",
]
