"""Conditional Transformer language models you can steer, in JAX and Flax.

>>> import ctrl_jax
>>> model = ctrl_jax.load("runs/demo")  # doctest: +SKIP
>>> model.generate("The ", code="numpy")[0][0].text  # doctest: +SKIP

Importing the package is cheap: JAX is imported with the first use of `load` or
`LanguageModel`.
"""

from typing import TYPE_CHECKING

from ctrl_jax.errors import UserError

if TYPE_CHECKING:
  from ctrl_jax.language_model import LanguageModel
  from ctrl_jax.loading import load

__version__ = "0.1.0"
__all__ = ["LanguageModel", "UserError", "__version__", "load"]


def __getattr__(name: str):
  if name == "LanguageModel":
    from ctrl_jax.language_model import LanguageModel

    return LanguageModel
  if name == "load":
    from ctrl_jax.loading import load

    return load
  raise AttributeError(f"module 'ctrl_jax' has no attribute {name!r}")
