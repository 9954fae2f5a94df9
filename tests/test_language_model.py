"""`ctrl_jax.load` and what it returns."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys

import decoding_fakes
import evaluation_fakes as fakes
import interop_fakes
import jax
import numpy as np
import pytest
import shared_data

import ctrl_jax
from ctrl_jax import language_model
from ctrl_jax.interop import hugging_face
from ctrl_jax.models import transformer
from ctrl_jax.text import ctrl_codes


@pytest.fixture(scope="module")
def model():
  return language_model.LanguageModel(
      fakes.config(), fakes.params(), tokenizer=fakes.tokenizer(),
      prior=fakes.PRIOR,
  )


def test_import_is_cheap():
  code = (
      "import sys, ctrl_jax; assert 'jax' not in sys.modules;"
      "assert issubclass(ctrl_jax.UserError, ValueError);"
      "assert ctrl_jax.__version__"
  )
  subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_attribute():
  with pytest.raises(AttributeError, match="has no attribute 'lod'"):
    _ = ctrl_jax.lod


# Loading.


def test_loads_a_workdir(tmp_path, monkeypatch):
  fakes.write_workdir(tmp_path / "run", monkeypatch)
  monkeypatch.setenv("RUNS", str(tmp_path))
  model = ctrl_jax.load("$RUNS/run")
  assert isinstance(model, ctrl_jax.LanguageModel)
  assert model.config == fakes.config()
  assert model.prior == fakes.PRIOR
  assert model.codes == fakes.CODES
  assert model.window == 16
  assert model.tokenizer.encode("cat") == fakes.tokenizer().encode("cat")


def test_loads_a_real_checkpoint(tmp_path):
  fakes.write_workdir(tmp_path / "run", monkeypatch=None)
  model = ctrl_jax.load(tmp_path / "run")
  jax.tree.map(np.testing.assert_array_equal, model.params, fakes.params())


def test_workdir_with_another_tokenizer_of_the_same_size(tmp_path, monkeypatch):
  fakes.write_workdir(tmp_path / "run", monkeypatch)
  file = tmp_path / "run" / "config.json"
  content = json.loads(file.read_text())
  content["tokenizer_hash"] = fakes.tokenizer().hash
  file.write_text(json.dumps(content))
  whole = ctrl_jax.load(tmp_path / "run").score("cat purr", code="Cats")
  assert whole[0].num_tokens > 1
  tokenizer = tmp_path / "run" / "tokenizer" / "sentencepiece.model"
  pieces = tokenizer.read_bytes()
  assert pieces.count(b"\x02pu") == 1
  tokenizer.write_bytes(pieces.replace(b"\x02pu", b"\x02qu"))
  with pytest.raises(ctrl_jax.UserError, match="not the one that the model"):
    ctrl_jax.load(tmp_path / "run").score("cat purr", code="Cats")


def test_workdir_without_checkpoint(tmp_path):
  fakes.write_workdir(tmp_path / "run", monkeypatch=None)
  shutil.rmtree(tmp_path / "run" / "checkpoints")
  with pytest.raises(ctrl_jax.UserError, match="No checkpoint"):
    ctrl_jax.load(tmp_path / "run")


@pytest.mark.parametrize(
    "field, value, says",
    [
        ("d_ff", 64, r"layers/down/bias|layers/up"),
        ("num_layers", 3, r"layers/"),
    ],
)
def test_workdir_with_the_config_of_another_model(
    tmp_path, monkeypatch, field, value, says
):
  fakes.write_workdir(tmp_path / "run", monkeypatch)
  file = tmp_path / "run" / "config.json"
  content = json.loads(file.read_text())
  content["model"][field] = value
  file.write_text(json.dumps(content))
  with pytest.raises(ctrl_jax.UserError, match="is not of the model") as e:
    ctrl_jax.load(tmp_path / "run")
  assert re.search(says, str(e.value))


@pytest.mark.parametrize(
    "extra",
    [
        dict(codes=5), dict(codes="Cats"), dict(prior=[1]),
        dict(sequence_length="9"), dict(sequence_length=-1),
    ],
)
def test_export_with_damaged_extras(tmp_path, extra):
  fakes.write_export(tmp_path / "export", **extra)
  with pytest.raises(ctrl_jax.UserError, match="ctrl_jax.json: .*Restore"):
    ctrl_jax.load(tmp_path / "export")


def test_loads_an_export(tmp_path):
  fakes.write_export(
      tmp_path / "export", prior=fakes.PRIOR, codes=fakes.CODES,
      sequence_length=9,
  )
  model = ctrl_jax.load(tmp_path / "export")
  assert model.config.d_model == 16
  assert model.prior == fakes.PRIOR
  assert model.window == 9
  np.testing.assert_array_equal(
      model.params["embedding"]["table"], fakes.params()["embedding"]["table"]
  )


def test_folder_without_tokenizer(tmp_path):
  fakes.write_export(tmp_path / "export")
  for name in ("tokenizer_config.json", "sentencepiece.model"):
    (tmp_path / "export" / name).unlink()
  model = ctrl_jax.load(tmp_path / "export")
  assert model.logits([[1, 2]]).shape == (1, 2, model.config.vocab_size)
  assert model.window == model.config.max_length
  with pytest.raises(ctrl_jax.UserError, match="tokenizer_config.json"):
    model.score("a text")


def test_tokenizer_of_another_model(tmp_path):
  from ctrl_jax.text import sentencepiece

  fakes.write_export(tmp_path / "export", prior=fakes.PRIOR)
  other = sentencepiece.train(["some words"] * 5, ["Code"], vocab_size=105)
  other.save(tmp_path / "export")
  with pytest.raises(ctrl_jax.UserError, match="belongs to another model.$"):
    _ = ctrl_jax.load(tmp_path / "export").tokenizer


def test_vocab_cut_at_a_line_end(tmp_path):
  from ctrl_jax.text import learn_bpe

  tok = learn_bpe.train(["some words"], [], 10)
  config = dataclasses.replace(fakes.config(), vocab_size=tok.vocab_size)
  params = transformer.init(config, jax.random.key(0))
  hugging_face.write(tmp_path, config, params, extra=dict(prior=fakes.PRIOR))
  tok.save(tmp_path)
  assert ctrl_jax.load(tmp_path).tokenizer.hash == tok.hash
  file = tmp_path / "vocab"
  file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
  with pytest.raises(ctrl_jax.UserError, match="`vocab` was cut short"):
    _ = ctrl_jax.load(tmp_path).tokenizer


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "found readme.txt"),
        ("{", "not JSON"),
        ("[]", "no JSON object"),
        ("{}", "found config.json, readme.txt"),
        ('{"model_type": "bert"}', "model_type is 'bert'"),
        ('{"model": {"depth": 3}, "vocab_size": 9}', "not one of this version"),
    ],
)
def test_other_folders(tmp_path, content, message):
  (tmp_path / "readme.txt").write_text("x")
  if content:
    (tmp_path / "config.json").write_text(content)
  with pytest.raises(ctrl_jax.UserError, match=message):
    ctrl_jax.load(tmp_path)


def test_no_folder(tmp_path, monkeypatch):
  with pytest.raises(ctrl_jax.UserError, match="does not exist"):
    ctrl_jax.load(tmp_path / "nothing")
  (tmp_path / "file").write_text("x")
  with pytest.raises(ctrl_jax.UserError, match="is a file"):
    ctrl_jax.load(tmp_path / "file")
  monkeypatch.delenv("NOT_SET", raising=False)
  with pytest.raises(ctrl_jax.UserError, match="NOT_SET"):
    ctrl_jax.load("$NOT_SET/run")


# Logits.


def test_logits_are_causal_and_float32(model):
  ids = np.arange(12).reshape(2, 6)
  logits = model.logits(ids)
  assert logits.shape == (2, 6, model.config.vocab_size)
  assert logits.dtype == np.float32
  np.testing.assert_allclose(
      model.logits(ids[:, :4]), logits[:, :4], atol=1e-5
  )


@pytest.mark.parametrize(
    "ids, message",
    [
        ([1, 2], "shape"),
        ([[]], "shape"),
        ([[1.5]], "integers"),
        ([[0, 120]], "id 120 is outside the vocabulary of 120"),
        ([[-1]], "id -1"),
        ([[1], [1, 2]], "rows of one length"),
        ([[0] * 17], "17 positions are more than the model's 16"),
    ],
)
def test_bad_ids(model, ids, message):
  with pytest.raises(ctrl_jax.UserError, match=message):
    model.logits(ids)


# Scores.


def test_score(model):
  t = model.tokenizer
  with_code, without = model.score(["cat purr", "dog"], ["Dogs", None])
  ids = t.encode("cat purr")
  assert with_code.num_tokens == len(ids)
  np.testing.assert_allclose(
      with_code.log_prob,
      fakes.plain_log_prob(t.code_ids("Dogs") + ids, 1), rtol=1e-5,
  )
  ids = t.encode("dog")
  assert without.num_tokens == len(ids) - 1
  np.testing.assert_allclose(
      without.log_prob, fakes.plain_log_prob(ids, 1), rtol=1e-5, atol=1e-6
  )


def test_score_with_a_code_of_two_words(model):
  [found] = model.score("bird", code="Big r/birds")
  ids = model.tokenizer.encode("bird")
  prefix = model.tokenizer.code_ids("Big r/birds")
  assert len(prefix) == 2
  assert found.num_tokens == len(ids)
  np.testing.assert_allclose(
      found.log_prob, fakes.plain_log_prob(prefix + ids, 2), rtol=1e-5
  )


def test_score_counts_each_token_of_a_long_text_once(model):
  text = fakes.document("Cats", 60)
  [found] = model.score(text, "Cats")
  assert found.num_tokens == len(model.tokenizer.encode(text)) > 60


def test_score_bad_codes(model):
  with pytest.raises(ctrl_jax.UserError, match="Did you mean 'Cats'"):
    model.score("a", "Catz")
  with pytest.raises(ctrl_jax.UserError, match="1 control codes for 2 texts"):
    model.score(["a", "b"], ["Cats"])


# Attribution.


def test_attribute_is_bayes_on_scores(model):
  texts = [fakes.document("Cats", 4), fakes.document("Dogs", 30)]
  found = model.attribute(texts)
  for text, ranking in zip(texts, found):
    scores = {c: model.score(text, c)[0] for c in fakes.CODES}
    assert [a.code for a in ranking] == sorted(
        fakes.CODES, key=lambda c: scores[c].perplexity
    )
    logs = np.array([scores[a.code].log_prob for a in ranking])
    p = np.exp(logs - logs.max())
    np.testing.assert_allclose(
        [a.posterior for a in ranking], p / p.sum(), rtol=1e-3, atol=1e-12
    )
    np.testing.assert_allclose(
        [a.perplexity for a in ranking],
        [scores[a.code].perplexity for a in ranking], rtol=1e-5,
    )
    assert sum(a.posterior for a in ranking) == pytest.approx(1)


def test_priors(model):
  text = "meow"
  uniform = {a.code: a.posterior for a in model.attribute(text)[0]}
  for prior, weights in (
      ("data", fakes.PRIOR), ({"Cats": 1, "Dogs": 9, "Big r/birds": 0},) * 2,
  ):
    found = {a.code: a.posterior for a in model.attribute(text, prior=prior)[0]}
    total = sum(uniform[c] * weights[c] for c in fakes.CODES)
    for c in fakes.CODES:
      assert found[c] == pytest.approx(uniform[c] * weights[c] / total)


def test_the_releases_codes_and_their_shares(tmp_path):
  """55 codes by length-normalised perplexity; or weighed as in its data."""
  for name in ("codes", "vocab"):
    source = shared_data.path(f"tokenizers/ctrl/{name}")
    (tmp_path / name).symlink_to(source)
  params = interop_fakes.random_params(interop_fakes.RELEASE)
  params = jax.tree.map(lambda x: x * np.float32(0.3), params)
  hugging_face.write(tmp_path, interop_fakes.RELEASE, params)
  model = ctrl_jax.load(tmp_path)
  (ranking,) = model.attribute("I love God")
  perplexities = [r.perplexity for r in ranking]
  assert len(perplexities) == 55
  assert perplexities == sorted(perplexities) != [perplexities[0]] * 55
  # source_attribution.py: exp of the mean over all tokens but the code.
  found = {r.code: r for r in ranking}
  ids = [*model.tokenizer.code_ids("Horror"),
         *model.tokenizer.encode("I love God")]
  logits = np.float64(model.logits([ids])[0])
  nats = np.log(np.exp(logits).sum(-1))[:-1] - logits[range(3), ids[1:]]
  assert found["Horror"].perplexity == pytest.approx(
      np.exp(nats.mean()), rel=1e-4
  )
  weighed = {
      code: share * found[code].posterior
      for code, share in ctrl_codes.PRIORS.items()
  }
  (by_share,) = model.attribute("I love God", prior="data")
  for r in by_share:
    expected = weighed[r.code] / sum(weighed.values())
    assert r.posterior == pytest.approx(expected, rel=1e-4)
  # The big domains come first where they weigh.
  assert len(by_share) == 55 and by_share[0].code != ranking[0].code


def test_attribute_among_some_codes(model):
  [ranking] = model.attribute("woof", codes=["Dogs", "Cats", "Dogs"])
  assert sorted(a.code for a in ranking) == ["Cats", "Dogs"]
  assert sum(a.posterior for a in ranking) == pytest.approx(1)


def test_attribute_bad_input(model):
  with pytest.raises(ctrl_jax.UserError, match="Text 2 of 2 is empty"):
    model.attribute(["a", ""])
  with pytest.raises(ctrl_jax.UserError, match="Unknown control code 'Cow'"):
    model.attribute("a", codes=["Cow"])
  with pytest.raises(ctrl_jax.UserError, match="control code 'Cow'"):
    model.attribute("a", codes="Cow")
  with pytest.raises(ctrl_jax.UserError, match="no control codes"):
    model.attribute("a", codes=[])
  with pytest.raises(ctrl_jax.UserError, match="Unknown prior 'dada'"):
    model.attribute("a", prior="dada")
  with pytest.raises(ctrl_jax.UserError, match="Unknown prior 5"):
    model.attribute("a", prior=5)
  with pytest.raises(ctrl_jax.UserError, match="2 of 2 is nan, not a string"):
    model.attribute(["a", float("nan")])
  bare = language_model.LanguageModel(
      fakes.config(), fakes.params(), tokenizer=fakes.tokenizer()
  )
  with pytest.raises(ctrl_jax.UserError, match="does not say how large"):
    bare.attribute("a", prior="data")


# Generation.


def test_generate(model):
  found = model.generate(
      ["cat", ""], code=["Cats", "Dogs"], max_new_tokens=4, num_samples=2,
      temperature=1.0,
  )
  assert [len(samples) for samples in found] == [2, 2]
  for samples in found:
    for sample in samples:
      assert len(sample.token_ids) <= 4
      assert model.tokenizer.decode(sample.token_ids) == sample.text


def test_generate_takes_one_prompt(model):
  pieces = []
  [[found]] = model.generate(
      "cat", code="Cats", max_new_tokens=3,
      on_text=lambda *args: pieces.append(args[-1]),
  )
  assert "".join(pieces) == found.text


def test_generate_unknown_option(model):
  with pytest.raises(ctrl_jax.UserError, match="mean 'temperature'"):
    model.generate("cat", temprature=1.0)


def test_a_table_larger_than_the_tokenizer(tmp_path):
  """As transformers' resize_token_embeddings leaves it."""
  from ctrl_jax.interop import hugging_face
  from ctrl_jax.text import learn_bpe

  tok = learn_bpe.train(["the cat sat on the mat"] * 3, ["cat"], 20)
  for added, good in ((5, True), (-1, False)):
    folder = tmp_path / str(added)
    folder.mkdir()
    config = fakes.config(vocab_size=tok.vocab_size + added)
    params = fakes.transformer.init(config, jax.random.key(0))
    hugging_face.write(folder, config, params)
    tok.save(folder)
    model = ctrl_jax.load(folder)
    if good:
      samples = model.generate(
          ["the"], max_new_tokens=12, temperature=5.0, num_samples=8
      )[0]
      assert max(i for s in samples for i in s.token_ids) < tok.vocab_size
    else:
      with pytest.raises(ctrl_jax.UserError, match="another model"):
        model.score(["the"])


@pytest.mark.parametrize("rules", decoding_fakes.BY_HAND_TOKENS)
def test_each_set_of_rules(rules):
  model = language_model.LanguageModel(
      decoding_fakes.CONFIG,
      decoding_fakes.constant(decoding_fakes.BY_HAND).params,
      tokenizer=decoding_fakes.Characters(),
  )
  (result,), = model.generate("\n", rules=rules, max_new_tokens=4)
  assert result.token_ids == decoding_fakes.BY_HAND_TOKENS[rules]


def test_an_option_given_goes_before_the_rules():
  model = language_model.LanguageModel(
      decoding_fakes.CONFIG,
      decoding_fakes.constant(decoding_fakes.BY_HAND).params,
      tokenizer=decoding_fakes.Characters(),
  )
  (result,), = model.generate(
      "\n", rules="huggingface", ban_unknown=True, max_new_tokens=4
  )
  assert result.token_ids == decoding_fakes.BY_HAND_TOKENS["paper"]
