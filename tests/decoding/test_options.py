import pytest

from ctrl_jax import errors
from ctrl_jax.decoding.options import GenerationOptions


def test_defaults_are_the_papers():
  options = GenerationOptions()
  assert options.temperature == 0
  assert (options.penalty, options.penalty_rule) == (1.2, "paper")


@pytest.mark.parametrize(
    "field, value",
    [
        ("max_new_tokens", 0),
        ("min_new_tokens", -1),
        ("min_new_tokens", 129),
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", float("nan")),
        ("penalty", 0.0),
        ("penalty", float("inf")),
        ("penalty_rule", "other"),
        ("num_samples", 0),
        ("seed", -1),
        ("stride", -1),
        ("block_size", 0),
        ("batch_size", 0),
        ("stop", ("",)),
        ("ban", ("",)),
        ("max_new_tokens", 2.5),
        ("top_k", 2.5),
        ("temperature", "hot"),
        ("temperature", None),
        ("stop", 5),
        ("ban", (1.5,)),
    ],
)
def test_bad_value_is_one_line_that_names_it(field, value):
  with pytest.raises(errors.UserError, match=field) as e:
    GenerationOptions(**{field: value})
  assert "\n" not in str(e.value)


def test_one_string_or_id_is_a_tuple_of_one():
  options = GenerationOptions(stop="END", ban=3)
  assert options.stop == ("END",)
  assert options.ban == (3,)


@pytest.mark.parametrize(
    "fields, says",
    [
        (dict(ban_unknown="no"), "ban_unknown='no' must be True or False"),
        (dict(max_new_tokens=True), "max_new_tokens=True must be an integer"),
        (dict(penalty_exempt=True), "penalty_exempt"),
        (dict(stop=None), "stop=None must be"),
        (dict(window_rule="x"), "one of paper, release"),
        (dict(ban_after=("",)), "ban_after"),
    ],
)
def test_types_and_names(fields, says):
  with pytest.raises(errors.UserError, match=says):
    GenerationOptions(**fields)
