"""How one tensor of another program lies beside ours."""

from typing import NamedTuple


class Tensor(NamedTuple):
  """One tensor of a file, and the leaves of our tree that it holds.

  Attributes:
    name: its name there.
    leaves: paths in our tree, `layers/up/kernel`.
    layer: index on the leaves' first axis; None outside the layers.
    transpose: whether it is stored [out, in].
  """

  name: str
  leaves: tuple[str, ...]
  layer: int | None = None
  transpose: bool = False
