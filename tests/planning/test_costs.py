"""On HLO written by hand, and on small programs whose work is known."""

import jax
import jax.numpy as jnp
import pytest

from ctrl_jax.planning import costs, hlo


def operations(function, *shapes):
  arguments = [jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes]
  text = jax.jit(function).lower(*arguments).compile().as_text()
  return costs.operations(hlo.parse(text), 1)


def flops(ops):
  return sum(o.times * o.flops for o in ops)


def entry(*lines, parameters, computations=""):
  """A module of one entry whose last line is the root."""
  body = [f"  %p{i} = {s} parameter({i})" for i, s in enumerate(parameters)]
  body += [f"  {line}" for line in lines[:-1]] + [f"  ROOT {lines[-1]}"]
  text = "HloModule m\n\n" + computations + "\n\nENTRY %e (x: f32[]) -> f32[] {"
  return hlo.parse("\n".join([text, *body, "}"]))


def only(module, devices=8):
  (operation,) = costs.operations(module, devices)
  return operation


def test_a_product():
  ops = operations(jnp.dot, (64, 48), (48, 32))
  assert flops(ops) == 2 * 64 * 48 * 32
  assert sum(o.bytes for o in ops) >= 4 * (64 * 48 + 48 * 32 + 64 * 32)


def test_a_batch_of_products():
  ops = operations(
      lambda a, b: jnp.einsum("bij,bjk->bik", a, b), (5, 16, 24), (5, 24, 8)
  )
  assert flops(ops) == 2 * 5 * 16 * 24 * 8


def test_loops_count_as_often_as_they_run():
  def f(x, w):
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]

  ops = operations(f, (16, 32), (7, 32, 32))
  assert flops(ops) == 7 * 2 * 16 * 32 * 32
  (product,) = [o for o in ops if o.flops]
  assert (product.times, product.in_loop) == (7, True)


def test_loops_in_loops():
  def f(x, w):
    def outer(x, w):
      return jax.lax.fori_loop(0, 3, lambda _, x: jnp.tanh(x @ w), x), None

    return jax.lax.scan(outer, x, w)[0]

  assert flops(operations(f, (16, 32), (7, 32, 32))) == 21 * 2 * 16 * 32 * 32


def test_gradient_of_a_layer_is_three_products():
  def f(w, x):
    return jnp.tanh(x @ w).sum()

  ops = operations(jax.grad(f, (0, 1)), (32, 48), (16, 32))
  assert flops(ops) == 3 * 2 * 16 * 32 * 48


def test_padding_of_products():
  product = costs.Product(m=1024, n=80, k=256)
  assert product.flops == 2 * 1024 * 80 * 256
  # With the 1,024 rows stationary the 80 columns stream: nothing is padded.
  assert product.padded_flops(128) == product.flops
  assert costs.Product(1024, 256, 80).padded_flops(128) == 2 * 1024 * 256 * 128
  assert costs.Product(4, 128, 128).padded_flops(128) == 2 * 8 * 128 * 128


def test_a_convolution_that_is_a_product():
  module = entry(
      "%c = f32[1024,64]{1,0:T(8,128)} convolution(%p0, %p1),"
      " dim_labels=bf_io->bf",
      parameters=("f32[1024,32]{1,0:T(8,128)}", "f32[32,64]{1,0:T(8,128)}"),
  )
  assert only(module).products == (costs.Product(1024, 64, 32),)


def test_a_batch_as_a_dilated_window():
  module = entry(
      "%c = f32[4,16,64,256]{3,2,1,0:T(8,128)} convolution(%p0, %p1),"
      " window={size=4x16 stride=3x15 lhs_dilate=4x16},"
      " dim_labels=01bf_01oi->01bf",
      parameters=("bf16[4,16,64,80]", "bf16[4,16,256,80]"),
  )
  assert only(module).flops == 2 * (4 * 16) * 64 * 256 * 80


def test_a_padded_reversed_window_counts_what_meets_data():
  module = entry(
      "%c = bf16[4,256,16,80] convolution(%p0, %p1), window={size=1x16"
      " pad=0_0x15_15 rhs_reversal=0x1}, dim_labels=0bf1_1oi0->0b1f",
      parameters=("bf16[4,256,1280,1]", "bf16[16,80,1280,1]"),
  )
  assert only(module).flops == 2 * 4 * 256 * 1280 * (16 * 80)


def test_contraction_over_a_window():
  module = entry(
      "%c = bf16[8192,1280,1] convolution(%p0, %p1), window={size=4},"
      " dim_labels=0fb_0io->bf0",
      parameters=("bf16[4,256,8192]", "bf16[4,256,1280]"),
  )
  assert only(module).flops == 2 * 1024 * 8192 * 1280


SLICE = """
%f (a: f32[], b: f32[]) -> f32[] {
  %stack = f32[48,8,128]{2,1,0:T(8,128)} parameter(0)
  %i = s32[] parameter(1)
  %z = s32[] constant(0)
  ROOT %s = f32[1,8,128]{2,1,0:T(8,128)} dynamic-slice(%stack, %i, %z, %z)
}
"""


def test_of_a_stack_the_slice_is_read():
  module = entry(
      "%o = f32[1,8,128]{2,1,0:T(8,128)} fusion(%p0, %p1), kind=kLoop,"
      " calls=%f",
      parameters=("f32[48,8,128]{2,1,0:T(8,128)}", "s32[]"),
      computations=SLICE,
  )
  assert only(module).bytes == 2 * 8 * 128 * 4 + 4


CONVERT = """
%inner (a: f32[]) -> bf16[] {
  %a = f32[8,128]{1,0} parameter(0)
  ROOT %c = bf16[8,128]{1,0} convert(%a)
}

%f (b: f32[]) -> bf16[] {
  %b = f32[8,128]{1,0} parameter(0)
  %g = bf16[8,128]{1,0} fusion(%b), kind=kLoop, calls=%inner
  ROOT %n = bf16[8,128]{1,0} negate(%g)
}
"""


def test_fusions_in_fusions_read_their_input():
  module = entry(
      "%o = bf16[8,128]{1,0} fusion(%p0), kind=kLoop, calls=%f",
      parameters=("f32[8,128]{1,0}",), computations=CONVERT,
  )
  assert only(module).bytes == 8 * 128 * (4 + 2)


UPDATE = """
%f (a: f32[], b: f32[]) -> f32[] {
  %stack = f32[48,8,128]{2,1,0:T(8,128)} parameter(0)
  %new = f32[1,8,128]{2,1,0:T(8,128)} parameter(1)
  %z = s32[] constant(0)
  ROOT %s = f32[48,8,128] dynamic-update-slice(%stack, %new, %z, %z, %z)
}
"""


def test_an_update_in_place_moves_the_update():
  module = entry(
      "%o = f32[48,8,128]{2,1,0:T(8,128)} fusion(%p0, %p1), kind=kLoop,"
      " calls=%f",
      parameters=("f32[48,8,128]{2,1,0:T(8,128)}", "f32[1,8,128]"),
      computations=UPDATE,
  )
  assert only(module).bytes == 2 * 8 * 128 * 4


def test_what_lies_on_the_chip_is_no_traffic():
  module = entry(
      "%o = f32[8,128]{1,0:T(8,128)S(1)} add(%p0, %p1)",
      parameters=("f32[8,128]{1,0:T(8,128)S(1)}", "f32[8,128]{1,0:T(8,128)}"),
  )
  assert only(module).bytes == 8 * 128 * 4


def test_collectives_plain_and_asynchronous():
  module = entry(
      "%g = bf16[256,128] all-gather(%p0), replica_groups=[2,4]<=[8],"
      " dimensions={0}",
      parameters=("bf16[64,128]",),
  )
  gather = only(module)
  assert (gather.collective, gather.message) == ("all-gather", 256 * 128 * 2)
  assert gather.group == (0, 1, 2, 3)
  module = entry(
      "%g = (bf16[64,128], bf16[256,128]) all-gather-start(%p0),"
      " replica_groups={{0,1,2,3}}, dimensions={0}",
      "%d = bf16[256,128] all-gather-done(%g)",
      parameters=("bf16[64,128]",),
  )
  assert only(module).message == 256 * 128 * 2


REDUCE_SCATTER = """
%all-reduce-scatter.1 (a: f32[]) -> f32[] {
  %a = f32[64,128]{1,0} parameter(0)
  %r = f32[64,128]{1,0} all-reduce(%a), replica_groups={{0,1,2,3}}
  %z = s32[] constant(0)
  ROOT %s = f32[16,128]{1,0} dynamic-slice(%r, %z, %z)
}
"""


def test_a_reduce_scatter_as_the_tpu_writes_it():
  module = entry(
      "%o = f32[16,128]{1,0} fusion(%p0), kind=kCustom,"
      " calls=%all-reduce-scatter.1",
      parameters=("f32[64,128]{1,0}",), computations=REDUCE_SCATTER,
  )
  operation = only(module)
  assert operation.collective == "reduce-scatter"
  assert operation.message == 64 * 128 * 4


def chained(name, custom_call=""):
  """A fusion's computation that holds one link of a chain."""
  last = "g" if not custom_call else "c"
  target = f'custom_call_target="{custom_call}"'
  call = custom_call and f"  %c = bf16[64,128] custom-call(%g), {target}\n"
  results = "(bf16[16,128], bf16[64,128], bf16[64,128])"
  return f"""
%{name} (a: f32[]) -> f32[] {{
  %a = bf16[16,128] parameter(0)
  %b = bf16[64,128] parameter(1)
  %n = bf16[64,128] negate(%b)
  %g = bf16[64,128] all-gather(%a), replica_groups={{{{0,1,2,3}}}}, \
frontend_attributes={{chain_id="2"}}
{call}  ROOT %t = {results} tuple(%a, %{last}, %n)
}}
"""


def test_a_chain_of_fusions_is_one_collective_and_what_they_compute():
  results = "(bf16[16,128], bf16[64,128], bf16[64,128])"
  module = entry(
      f"%s = {results} fusion(%p0, %p1), kind=kLoop, calls=%start",
      f"%m = {results} fusion(%p0, %p1), kind=kLoop, calls=%between",
      f"%d = {results} fusion(%p0, %p1), kind=kLoop, calls=%done",
      parameters=("bf16[16,128]", "bf16[64,128]"),
      computations=chained("start", "AsyncCollectiveStart")
      + chained("between") + chained("done", "AsyncCollectiveDone"),
  )
  start, meanwhile, between, done = costs.operations(module, 4)
  assert (start.collective, start.message) == ("all-gather", 64 * 128 * 2)
  assert start.bytes == 64 * 128 * 2
  # The negation's input and output.
  assert (meanwhile.collective, meanwhile.bytes) == ("", 2 * 64 * 128 * 2)
  assert (between.collective, between.bytes) == ("", 2 * 64 * 128 * 2)
  assert (done.collective, done.bytes) == ("", 0)


def test_a_product_beside_the_start_of_a_collective_is_counted():
  inner = chained("start", "AsyncCollectiveStart").replace(
      "negate(%b)", "convolution(%b, %b), dim_labels=bf_oi->bf"
  ).replace("%n = bf16[64,128]", "%n = bf16[64,64]").replace(
      "ROOT %t = (bf16[16,128], bf16[64,128], bf16[64,128])",
      "ROOT %t = (bf16[16,128], bf16[64,128], bf16[64,64])",
  )
  module = entry(
      "%s = (bf16[16,128], bf16[64,128], bf16[64,64]) fusion(%p0, %p1),"
      ' kind=kLoop, calls=%start, backend_config={"estimated_cycles":"7"}',
      parameters=("bf16[16,128]", "bf16[64,128]"), computations=inner,
  )
  start, product = costs.operations(module, 4)
  assert (start.collective, start.flops, start.cycles) == ("all-gather", 0, 0)
  assert product.products == (costs.Product(64, 64, 128),)
  assert (product.collective, product.cycles) == ("", 7)
  assert product.bytes == (64 * 128 + 64 * 64) * 2


def test_a_prefetch_reads_the_slice():
  module = entry(
      "%s = ((f32[64,128]{1,0}), f32[8,128]{1,0:S(1)}, s32[]{:S(2)})"
      " slice-start(%p0), slice={[0:8], [0:128]}",
      "%d = f32[8,128]{1,0:S(1)} slice-done(%s)",
      parameters=("f32[64,128]{1,0}",),
  )
  assert only(module).bytes == 8 * 128 * 4


def test_the_message_of_a_started_permutation():
  module = entry(
      "%s = (bf16[8,128], bf16[8,128], u32[], u32[])"
      " collective-permute-start(%p0), source_target_pairs={{0,1},{1,0}}",
      "%d = bf16[8,128] collective-permute-done(%s)",
      parameters=("bf16[8,128]",),
  )
  operation = only(module, devices=2)
  assert operation.collective == "collective-permute"
  assert operation.message == 8 * 128 * 2


def test_cycles_that_the_compiler_estimates():
  module = entry(
      '%o = f32[8]{0} add(%p0, %p0), backend_config={"estimated_cycles":"26"}',
      parameters=("f32[8]{0}",),
  )
  assert only(module).cycles == 26


def test_of_branches_the_longest_counts():
  def f(c, x, w):
    long = lambda x: x @ w @ w
    return jax.lax.cond(c.sum() > 0, long, lambda x: x @ w, x)

  ops = operations(f, (1,), (16, 16), (16, 16))
  assert flops(ops) == pytest.approx(2 * 2 * 16**3)
