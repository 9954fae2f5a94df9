"""What a method is asked for each triple; real models are in the experiment."""

import math
import types

import pytest

from ctrl_jax import errors
from ctrl_jax.data.keywords import Triple
from ctrl_jax.experiments import keyword_point, topics

TRIPLES = [
    Triple(keyword="soon", prefix="It is", text=" soon over.", document="1"),
    Triple(keyword="yet", prefix="He has", text=" not yet come.", document="2"),
]


class Model:
  """Notes what it is asked, and answers with the prompt's number."""

  config = types.SimpleNamespace(max_length=200)
  tokenizer = types.SimpleNamespace(
      encode=lambda text: text.split(), begin_ids=(), code_ids=lambda code: [0]
  )

  def __init__(self):
    self.calls = []

  def generate(self, prompts, code, **options):
    self.calls.append((list(prompts), code, options))
    return [[types.SimpleNamespace(text=f" {i}")] for i in range(len(prompts))]


def ask(**options):
  model = Model()
  found = keyword_point.sample(
      model, TRIPLES, code="Text", max_new_tokens=5, **options
  )
  assert found == [" 0", " 1"]
  (call,) = model.calls
  return call


def test_prefix_alone_with_the_keyword_as_attribute():
  prompts, code, options = ask(attribute="{keyword}", seed=3)
  assert prompts == ["It is", "He has"] and code == "Text"
  assert options == dict(
      max_new_tokens=5, seed=3, attribute=["soon", "yet"]
  )


def test_keyword_in_the_prompt():
  prompts, _, options = ask(prompt="{keyword}: {prefix}")
  assert prompts == ["soon: It is", "yet: He has"]
  assert "attribute" not in options


def test_zero_shot_tells_the_task():
  prompts, _, options = ask(sampler="zero_shot")
  assert prompts[0] == 'A sentence with the word "soon": It is'
  assert options["stop"] == ["\n\n"]


def test_few_shot_shows_others():
  pool = [
      Triple(keyword=k, prefix="We", text=f" {k} go.", document=k)
      for k in "abcdef"
  ]
  prompts, _, _ = ask(sampler="few_shot", pool=pool, shots=2)
  for prompt, triple in zip(prompts, TRIPLES):
    assert prompt.endswith(f"Word: {triple.keyword}\nSentence: {triple.prefix}")
    assert prompt.count("Sentence: We") == 2


def test_the_perplexity_of_true_continuations_by_hand():
  """A nat for each token, the end included."""
  asked = []

  def score_ids(pairs):
    asked.extend(pairs)
    return [
        types.SimpleNamespace(log_prob=-len(ids), num_tokens=len(ids))
        for _, ids in pairs
    ]

  tokenizer = types.SimpleNamespace(**vars(Model.tokenizer), end_id="END")
  model = types.SimpleNamespace(tokenizer=tokenizer, score_ids=score_ids)
  found = keyword_point.continuation_perplexity(model, TRIPLES, "Text")
  assert found == pytest.approx(math.e)
  assert asked == [
      ([0, "It", "is"], ["soon", "over.", "END"]),
      ([0, "He", "has"], ["not", "yet", "come.", "END"]),
  ]


@pytest.mark.parametrize("discriminator", [None, "of topics"])
def test_pplm_moves_towards_what_is_asked_for(monkeypatch, discriminator):
  called = []

  def generate(model, prompts, code, **options):
    called.append(options)
    return [[types.SimpleNamespace(text="x")] for _ in prompts]

  monkeypatch.setattr(keyword_point.pplm, "generate", generate)
  asked = [
      topics.Prompt("cs", "We", "see.", "math", keyword="soon"),
      topics.Prompt("math", "We", "see.", "math", keyword="yet"),
  ]
  keyword_point.sample(
      Model(), asked, code="Text", sampler="pplm", stepsize=0.1,
      discriminator=discriminator,
  )
  goal = dict(bag=[["soon"], ["yet"]], long_words="first")
  if discriminator:
    goal = dict(discriminator="of topics", target=["cs", "math"])
  assert called == [goal | dict(stepsize=0.1)]


def test_an_unknown_sampler():
  with pytest.raises(errors.UserError, match="Unknown sampler 'pplmm'. .*pplm"):
    keyword_point.sample(None, [], code=None, sampler="pplmm")
