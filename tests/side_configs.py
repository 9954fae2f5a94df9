"""Side networks beside one small model, for tests of what uses them."""

from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.side import SideConfig

BASE = TransformerConfig(
    vocab_size=31, d_model=16, d_ff=32, num_layers=2, num_heads=2, max_length=8,
    dropout=0.5, dtype="float32", vocab_multiple=8,
)
SAME = dict(d_model=16, d_ff=32, num_layers=1, num_heads=2, dropout=0.0)
NARROW = dict(SAME, d_model=8, d_ff=16)
SIDES = {
    "first layers": SideConfig(BASE, **SAME),
    "random": SideConfig(BASE, init="random", **SAME),
    "narrow": SideConfig(BASE, init="random", **NARROW),
    "sum": SideConfig(BASE, "sum", **SAME),
}
