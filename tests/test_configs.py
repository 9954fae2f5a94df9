"""Every configuration that is shipped loads and describes what it says."""

import importlib.util
import pathlib

import jax
import pytest
from tokenizers import pre_tokenizers

from ctrl_jax import config, errors
from ctrl_jax.data import documents, sources
from ctrl_jax.experiments import kinds
from ctrl_jax.models import cvae, transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.tasks import make as tasks
from ctrl_jax.text import byte_bpe
from ctrl_jax.training import optimizer, step

FOLDER = pathlib.Path(__file__).parents[1] / "configs"
EXPERIMENTS = sorted(p.stem for p in FOLDER.glob("*_experiment.py"))
NAMES = sorted({p.stem for p in FOLDER.glob("*.py")} - set(EXPERIMENTS))


def load(name, *arguments):
  spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module.get_config(*arguments), module


@pytest.mark.parametrize("name", NAMES)
def test_loads(name):
  c, module = load(name)
  assert "python -m ctrl_jax." in module.__doc__
  # No field that the default configuration does not have.
  default = config.default()
  for section in c:
    assert set(c[section]) == set(default[section]), section
  optimizer.OptimizerConfig(**c.optimizer)
  for source in c.data.sources:
    sources.Source.from_config(source)
  task = tasks.make(c, c.tokenizer.vocab_size)
  jax.eval_shape(task.init, jax.random.key(0))
  assert c.data.sequence_length <= c.model.max_length
  assert c.train.batch_size % c.train.accumulate == 0


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_name_configurations_that_are_there(name):
  c, module = load(name)
  assert "python -m ctrl_jax.experiment" in module.__doc__
  experiment = kinds.of(c).experiment(c, "unused")
  for method in experiment.methods:
    file = method.config.partition(":")[0]
    assert not file or (FOLDER.parent / file).is_file(), file


def test_ctrl_is_the_papers():
  c, _ = load("ctrl_1b")
  # What `plan` supposes.
  model = TransformerConfig(vocab_size=c.tokenizer.vocab_size, **c.model)
  assert transformer.num_parameters(model) == 1_637_964_550
  assert (c.optimizer.name, c.optimizer.learning_rate) == ("adagrad", 0.05)
  assert (c.optimizer.warmup_steps, c.optimizer.clip_norm) == (25_000, 0.25)
  assert c.optimizer.initial_accumulator == 0.1
  assert (c.train.batch_size, c.train.steps) == (1024, 800_000)
  assert (c.model.num_heads, c.data.sequence_length) == (16, 256)
  assert c.model.dropout == 0.1
  assert load("ctrl_1b_512")[0].data.sequence_length == 512
  c, _ = load("ctrl_36_layers")
  model = TransformerConfig(vocab_size=c.tokenizer.vocab_size, **c.model)
  assert transformer.num_parameters(model) == 1_307_426_566


def state_bytes(c):
  """(parameters of the model, bytes of the state, bytes of what is frozen)."""
  task = tasks.make(c, c.tokenizer.vocab_size)
  state = jax.eval_shape(step.from_config(c, task).init)
  count = lambda tree: sum(
      x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)
  )
  parameters = transformer.num_parameters(task.model)
  return parameters, count(state), count(state.get("frozen", {}))


def test_ctrl_on_one_device(monkeypatch):
  """The whole of it in float32, with next to no optimizer state."""
  monkeypatch.delenv("CTRL_JAX_MODEL", raising=False)
  parameters, state, frozen = state_bytes(load("ctrl_1b_16gb")[0])
  assert parameters == 1_637_964_550
  assert 4 * parameters < state < 4.02 * parameters and not frozen
  parameters, state, frozen = state_bytes(load("ctrl_1b_auxiliary_16gb")[0])
  assert parameters == 1_637_964_550
  assert 2 * parameters < frozen < 2.01 * parameters
  assert state - frozen < 2**28


@pytest.mark.parametrize(
    "size, millions", [("6m", 5.8), ("25m", 25.0), ("110m", 110), ("350m", 350)]
)
def test_ladder_sizes_are_what_they_are_called(size, millions):
  c, _ = load("ladder", size)
  model = TransformerConfig(vocab_size=c.tokenizer.vocab_size, **c.model)
  assert transformer.num_parameters(model) / 1e6 == pytest.approx(
      millions, rel=0.05
  )


def test_ladder_without_such_a_size():
  with pytest.raises(errors.UserError, match="6m"):
    load("ladder", "7m")


@pytest.mark.parametrize("variant, name", [
    ("feature", "auxiliary_tuning"),
    ("gate", "auxiliary_tuning"),
    ("independent", "auxiliary_tuning"),
    ("finetune", "language_model"),
    ("scratch", "language_model"),
    ("lora", "lora"),
    ("side", "side_tuning"),
])
def test_methods_of_the_keyword_task_differ_in_the_method_alone(variant, name):
  c, _ = load("auxiliary_keyword", variant)
  assert c.task.name == name
  task = tasks.make(c, 8192)
  jax.eval_shape(task.init, jax.random.key(0))
  base, _ = load("auxiliary_base")
  assert task.model == tasks.make(base, 8192).model
  assert (c.train.init_from == "") == (variant == "scratch")
  other, _ = load("auxiliary_keyword")
  for field in ("steps", "max_minutes", "batch_size", "seed"):
    assert c.train[field] == other.train[field]
  assert c.data.sequence_length == other.data.sequence_length == 64
  assert c.tokenizer == other.tokenizer
  # Each at the rate that suits it.
  c.optimizer.learning_rate = other.optimizer.learning_rate
  assert c.optimizer == other.optimizer
  files = lambda c: [(s["path"], s["split"]) for s in c.data.sources]
  assert files(c) == files(other)
  same_data = name == "auxiliary_tuning"
  assert (c.data.to_dict() == other.data.to_dict()) == same_data


def test_the_keyword_task_without_such_a_method():
  with pytest.raises(errors.UserError, match="finetune"):
    load("auxiliary_keyword", "finetun")
  with pytest.raises(errors.UserError, match="'5'. Known: 100, 10, 1"):
    load("auxiliary_keyword", "finetune@5")


@pytest.mark.parametrize("percent, share", [("10", 0.1), ("1", 0.01)])
def test_less_text_is_all_that_differs(percent, share):
  c, _ = load("auxiliary_keyword", f"feature@{percent}")
  whole, _ = load("auxiliary_keyword", "feature")
  assert (c.data.train_share, whole.data.train_share) == (share, 1.0)
  assert c.data.folder == f"{whole.data.folder}_{percent}"
  c.data.update(dict(train_share=1.0, folder=whole.data.folder))
  assert c == whole == load("auxiliary_keyword", "feature@100")[0]


@pytest.mark.parametrize("variant", ["feature", "finetune", "scratch", "twice"])
def test_topics_differ_from_keywords_in_the_data_alone(variant):
  c, _ = load("auxiliary_topic", variant)
  method = "finetune" if variant == "twice" else variant
  other, _ = load("auxiliary_keyword", method)
  for section in ("model", "task", "auxiliary", "optimizer", "tokenizer"):
    assert c[section] == other[section]
  tokens = lambda c: c.train.batch_size * c.data.sequence_length
  assert tokens(c) == tokens(other) and c.train.steps == other.train.steps
  assert (c.train.init_from == other.train.init_from) == (variant != "twice")
  assert [s["split"] for s in c.data.sources] == ["train", "validation", "test"]


def test_topics_without_such_a_method():
  with pytest.raises(errors.UserError, match="Did you mean 'twice'"):
    load("auxiliary_topic", "twic")


def test_the_test_abstracts_are_of_no_models_training():
  """What --by and --test_fraction choose, the base and the scorer hold out."""
  base, module = load("auxiliary_base")
  _, topic = load("auxiliary_topic")
  (source,) = (s for s in base.data.sources if "arxiv" in s["path"][0])
  by = source["template"].replace("\n", r"\n")
  for flag in (
      f"--by=$'{by}'", f"--test_fraction={base.data.validation_fraction}",
      f"--input='{source['path'][0]}'",
  ):
    assert flag in topic.__doc__
  assert base.data.test_fraction == 0 and base.data.seed == 0
  # All that one does not read, the other does, split by the same hash.
  shares = list(module.SHARES.values())
  assert shares == [(0.0, 0.5), (0.5, 1.0)]


@pytest.mark.parametrize("injection, expected", [
    ("input", 169_921_536), ("pseudo_self_attention", 190_583_808),
])
def test_the_cvae_is_the_papers(injection, expected):
  c, _ = load("cvae_gpt2")
  c.cvae.injections = (injection,)
  task = tasks.make(c, 50257)
  assert cvae.num_parameters(task.cvae) == expected
  assert (c.model.num_layers, c.cvae.num_layers) == (12, 6)
  assert [p.until_step for p in task.phases] == [10_000, None]


def test_the_cvae_of_stories_has_the_bases_model():
  c, _ = load("cvae_stories", "pseudo_self_attention+input")
  base, _ = load("auxiliary_base")
  assert c.model == base.model
  assert c.cvae.injections == ("pseudo_self_attention", "input")


@pytest.mark.parametrize("variant, name", [
    ("finetune", "language_model"), ("psa", "cvae"),
    ("fusion", "auxiliary_tuning"), ("latent_auxiliary", "cvae"),
    ("optimus", "cvae"), ("cyclical", "cvae"),
    ("outline", "language_model"),
])
def test_methods_on_stories_differ_in_the_method_alone(variant, name):
  c, _ = load("stories_baselines", variant)
  assert c.task.name == name
  task = tasks.make(c, 8192)
  jax.eval_shape(task.init, jax.random.key(0))
  other, _ = load("cvae_stories")
  assert task.model == tasks.make(other, 8192).model
  assert c.train == other.train and c.optimizer == other.optimizer
  rows = lambda c: [
      {k: v for k, v in s.items() if k not in ("attribute", "template")}
      for s in c.data.sources
  ]
  assert rows(c) == rows(other)
  templates = {s["template"] for s in c.data.sources}
  assert templates == (
      {"{prompt}\n{outline}\n"} if variant == "outline" else {"{prompt}\n"}
  )
  assert (c.data.folder == other.data.folder) == (
      variant not in ("fusion", "outline")
  )
  if name == "cvae":
    assert (task.phases[-1].rule[-1] == (r"base/.*", False)) == (
        variant == "latent_auxiliary"
    )


def test_stories_without_such_a_method():
  with pytest.raises(errors.UserError, match="Did you mean 'fusion'"):
    load("stories_baselines", "fusoin")


def test_the_vae_of_abstracts_sees_no_label():
  c, _ = load("cvae_arxiv")
  (source,) = c.data.sources
  assert source["template"] + source["target"] == "{abstract}"
  assert c.cvae.prior == "standard"


def test_the_base_has_read_no_film_of_the_cvae():
  """Both hash the same text with the same salt, and take disjoint shares."""
  c, _ = load("cvae_films", "softmax")
  base, _ = load("auxiliary_base")
  (film,) = c.data.sources
  (read,) = (s for s in base.data.sources if s["path"] == film["path"])
  assert film["template"] + film["target"] == read["template"]
  assert (film["code"], c.data.seed) == (read["code"], base.data.seed)
  assert base.data.share[1] <= c.data.share[0]
  assert c.model == base.model and c.cvae.injections == ("softmax",)


def test_reviews_are_split_10_1_1_without_their_stars():
  c, _ = load("cvae_yelp")
  (source,) = c.data.sources
  assert source["kind"] == "yelp"
  assert source["template"] + source["target"] == "{text}"
  splitter = documents.Splitter(
      c.data.seed, c.data.validation_fraction, c.data.test_fraction
  )
  places = [splitter.place(splitter.digest(str(i))) for i in range(12_000)]
  parts = [places.count(split) / 1000 for split in sources.SPLITS]
  assert parts == pytest.approx([10, 1, 1], abs=0.15)


def test_the_papers_separator_is_no_text():
  """Why `cvae_gpt2` separates with a line end, as its docstring says."""
  c, module = load("cvae_gpt2")
  assert {s["template"] for s in c.data.sources} == {"{prompt}\n"}
  assert "separator         a line end" in module.__doc__
  pieces = sorted(pre_tokenizers.ByteLevel.alphabet()) + ["<|endoftext|>"]
  tokenizer = byte_bpe.ByteBPE({p: i for i, p in enumerate(pieces)}, [])
  assert tokenizer.end_id == 256 and not tokenizer.begin_ids
  assert 256 not in tokenizer.encode("A prompt<|endoftext|>")
