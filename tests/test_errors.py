from ctrl_jax import errors


def test_nearest_suggests_or_lists():
  assert "Did you mean 'Legal'?" in errors.nearest("legl", ["Books", "Legal"])
  text = errors.nearest("zzz", ["Books", "Legal"])
  assert "Did you mean" not in text and "Books, Legal" in text
  many = errors.nearest("x", [f"c{i}" for i in range(100)])
  assert many.endswith("..., ...") or ", ..." in many
