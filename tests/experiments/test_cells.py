from ctrl_jax.experiments import cells

LINES = [
    dict(loss=1.0, accuracy=dict(value=0.5, low=0.4, high=0.6)),
    dict(loss=2.0, accuracy=dict(value=0.7, low=0.6, high=0.8)),
]


def test_values_at_paths():
  assert cells.value(LINES[0], ("accuracy", "low")) == 0.4
  assert cells.value(LINES[0], ("accuracy", "gone", "low")) is None
  assert cells.value(LINES[0], ("loss", "value")) is None


def test_cells_by_hand():
  assert cells.mean(LINES, ("loss",), 2) == "1.50"
  assert cells.mean(LINES, ("loss",), 0, 10) == "15"
  assert cells.mean(LINES, ("gone",), 2) == cells.NONE
  assert cells.interval(LINES, ("accuracy",), 1, 100) == (
      "60.0 [50.0, 70.0] (50.0–70.0)"
  )
  assert cells.interval(LINES[:1], ("accuracy",), 1) == "0.5 [0.4, 0.6]"
  assert cells.interval(LINES, ("gone",), 1) == cells.NONE


def test_a_table():
  text = cells.table(["a", "b"], [["1", "2"]])
  assert text == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"
