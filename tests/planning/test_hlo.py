import pytest

from ctrl_jax.planning import hlo

# By hand, in the format of a compiled TPU program.
TEXT = """\
HloModule jit_step, is_scheduled=true, input_output_alias={ {0}: (0, {}, \
may-alias), {1, 0}: (2, {}, may-alias) }, entry_computation_layout={(f32[5])}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[]{:T(256)} parameter(0)
  %b = f32[]{:T(256)} parameter(1)
  ROOT %add.1 = f32[]{:T(256)} add(%a, %b)
}

%condition (state: (s32[], f32[8,5])) -> pred[] {
  %limit = s32[]{:T(256)} constant(48)
  %state = (s32[]{:T(256)}, /*index=1*/f32[8,5]{1,0:T(8,128)}) parameter(0)
  %i = s32[]{:T(256)} get-tuple-element(%state), index=0
  ROOT %lt = pred[]{:T(1024)} compare(%i, %limit), direction=LT
}

%body (state.1: (s32[], f32[8,5])) -> (s32[], f32[8,5]) {
  ROOT %state.1 = (s32[]{:T(256)}, f32[8,5]{1,0:T(8,128)}) parameter(0)
}

ENTRY %main (x: f32[8,5], y: bf16[3]) -> f32[8,5] {
  %x = f32[8,5]{1,0:T(8,128)} parameter(0)
  %y = bf16[3]{0:T(256)(128)(2,1)S(1)} parameter(1)
  %zero = s32[]{:T(256)} constant(0)
  %pair = (s32[]{:T(256)}, f32[8,5]{1,0:T(8,128)}) tuple(%zero, %x)
  %loop = (s32[], f32[8,5]) while(%pair), condition=%condition, body=%body
  %part = f32[8,5]{1,0:T(8,128)} get-tuple-element(%loop), index=1
  ROOT %done = f32[8,5]{1,0:T(8,128)} all-reduce(%part), channel_id=1, \
replica_groups={{0,2},{1,3}}, to_apply=%sum, metadata={op_name="jit(f)/psum"}
}
"""


def test_reads_computations_instructions_and_aliases():
  module = hlo.parse(TEXT)
  assert set(module.computations) == {"sum", "condition", "body", "main"}
  assert module.entry.name == "main"
  assert module.entry.root.name == "done"
  assert module.aliases == {0, 2}
  done = module.entry.instructions["done"]
  assert (done.opcode, done.operands) == ("all-reduce", ("part",))
  assert done.called("to_apply") == "sum"
  assert done.op_name == "jit(f)/psum"
  assert [i.name for i in module.entry.parameters] == ["x", "y"]
  assert [i.name for i in module.entry.users["x"]] == ["pair"]
  assert len(module.entry.instructions["pair"].shapes) == 2


def test_trip_count_from_the_condition_and_as_written_down():
  module = hlo.parse(TEXT)
  loop = module.entry.instructions["loop"]
  assert module.trip_count(loop) == 48
  known = hlo.parse(TEXT.replace(
      "body=%body",
      'body=%body, backend_config={"known_trip_count":{"n":"7"}}',
  ))
  assert known.trip_count(known.entry.instructions["loop"]) == 7


def test_unknown_trip_count_is_refused():
  module = hlo.parse(TEXT.replace("constant(48)", "add(%i, %i)"))
  with pytest.raises(ValueError, match="loop"):
    module.trip_count(module.entry.instructions["loop"])


@pytest.mark.parametrize(
    "text, logical, stored",
    [
        ("f32[8,5]{1,0:T(8,128)}", 160, 8 * 128 * 4),
        ("f32[8,5]{0,1:T(8,128)}", 160, 8 * 128 * 4),
        # A dimension of 1 between is padded to a tile's 4 rows.
        ("bf16[1,5,128]{2,0,1:T(4,128)(2,1)}", 1280, 5 * 4 * 128 * 2),
        ("bf16[3]{0:T(256)(128)(2,1)}", 6, 512),
        ("f32[]{:T(256)}", 4, 1024),
        ("pred[7]{0}", 7, 7),
        ("s4[16]", 8, 8),
    ],
)
def test_bytes_logical_and_padded_to_tiles(text, logical, stored):
  (shape,) = hlo.parse_shapes(text)
  assert (shape.bytes, shape.padded_bytes) == (logical, stored)


def test_memory_on_the_chip_is_told_apart():
  (shape,) = hlo.parse_shapes("f32[8]{0:T(128)S(1)}")
  assert shape.memory == 1


@pytest.mark.parametrize(
    "groups, expected",
    [
        ("{{0,2},{1,3}}", (0, 2)),
        ("[2,4]<=[8]", (0, 1, 2, 3)),
        ("[4,2]<=[2,4]T(1,0)", (0, 4)),
        ("mesh['x'=2,'y'=4] {'x'}", (0, 4)),
        ("mesh['x'=2,'y'=4] {'x','y'}", tuple(range(8))),
        ("{}", tuple(range(8))),
    ],
)
def test_devices_of_a_group(groups, expected):
  instruction = hlo.Instruction(
      "r", "all-gather", (), (), f", replica_groups={groups}, dimensions={{0}}"
  )
  assert hlo.first_group(instruction, 8) == expected
