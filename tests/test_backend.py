from ctrl_jax import backend


def test_cpu_computes_in_float32_unrolled_with_threefry():
  current = backend.current()
  assert current.dtype == "float32"
  assert not current.scan_layers
  assert current.prng == "threefry2x32"


def test_of_another_platform():
  assert backend.of("tpu").dtype == "bfloat16"
  assert backend.of("cpu") == backend.current()
  assert backend.of("rocm") == backend.of("gpu") == backend.of("cuda")
