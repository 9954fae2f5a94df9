"""The default experiment: every field there is, with its unit or constraint.

A file in `configs/` calls `default()` and changes fields; what it gets is
locked, so a misspelt field is an error. Modules never see a ConfigDict: each
command turns its section into that module's frozen dataclass.
"""

from collections.abc import Mapping, Sequence

import ml_collections


def default() -> ml_collections.ConfigDict:
  """Returns the default configuration, of a size for two CPU cores."""
  c = ml_collections.ConfigDict()
  c.data = _data()
  c.tokenizer = _tokenizer()
  c.model = _model()
  c.task = _task()
  c.auxiliary = _auxiliary()
  c.lora = _lora()
  c.side = _side()
  c.cvae = _cvae()
  c.optimizer = _optimizer()
  c.mesh = _mesh()
  c.train = _train()
  return c.lock()


def _data() -> ml_collections.ConfigDict:
  c = ml_collections.ConfigDict()
  # Folder that `prepare` writes and `train` reads; may hold $VARIABLES, and be
  # in a bucket (gs://bucket/data/x, needs the extra `gcs`): each machine that
  # reads it has a copy in $CTRL_JAX_CACHE, else ~/.cache/ctrl_jax.
  c.folder = "data/default"
  # One dict a source; `source()` below makes them.
  c.sources = ()
  # Instead of sources: TFRecords of the original CTRL's tool, which `train`
  # reads as they are, without `prepare`. "CODE=PATH" each, "=PATH" without a
  # code; paths may be globs. Needs tokenizer.path.
  c.tfrecords = ()
  # Tokens that the model reads a sequence, the control code in front included;
  # a record holds one more, the last target. At most model.max_length.
  c.sequence_length = 256
  # Tokens of a record's attribute at most (`source(attribute=)`); 0: none.
  c.attribute_length = 0
  # Sequences with more unknown tokens than this are dropped (paper 3.2).
  c.max_unknown = 2
  # Share of documents held out, by a hash of their text.
  c.validation_fraction = 0.05
  c.test_fraction = 0.05
  # Salt of that hash: another seed is another split.
  c.seed = 0
  # Only documents whose hash falls into this share, (from, to) of [0, 1): data
  # sets of disjoint shares have no document in common.
  c.share = (0.0, 1.0)
  # Of the documents to train on only this share, by another hash, so that 0.01
  # lies within 0.1; what is held out stays whole. Above 0, at most 1.
  c.train_share = 1.0
  # Files of JSON lines with the field `text`: documents that hold one of these
  # texts are left out, as a task's held-out examples should be of its base's
  # training.
  c.exclude = ()
  # Of a pair (`source(target=)`) only its first sequence is kept, and the rest
  # of a long text is left out instead of going on in sequences without the
  # prompt: for the CVAE, as its authors cut texts.
  c.truncate = False
  # Processes that tokenize; 0 means one a CPU core.
  c.workers = 0
  return c


def source(
    kind: str,
    code: str,
    *,
    path: str | Sequence[str] = "",
    template: str = "{text}",
    target: str = "",
    attribute: str = "",
    weight: float = 1.0,
    max_documents: int = 0,
    piece_chars: int = 2000,
    name: str = "",
    split: str = "",
    options: Mapping | None = None,
) -> dict:
  """Returns a source of text for `config.data.sources`.

  Besides the kinds below there are those of the Transformer CVAE's experiments,
  as they are published: "writing_prompts", "wiki_plots", "arxiv_abstracts" and
  "yelp"; ctrl_jax/data/readers says their fields.

  Args:
    kind: "text", "jsonl", "csv", "tsv" (each also packed, `.gz`, `.bz2`,
      `.xz`), "docs" (documentation strings of an installed Python package),
      "tfds" (a tensorflow-datasets builder that is prepared already),
      "tfrecords" (files of the original CTRL's make_tf_records.py: token ids,
      which need `tokenizer.path`), or a corpus as it is published:
      "amazon_reviews", "cnn_dailymail", "eli5", "gutenberg" (cut as "text" is),
      "mrqa", "new_york_times", "openwebtext", "parallel", "reddit",
      "wikiextractor". Their fields: ctrl_jax/data/readers.
    code: control code in front of every sequence. Nested codes are written
      with spaces, `Reddit r/legaladvice`: each word is a reserved symbol. ""
      is text without a code, each sequence of which begins with plain text.
    path: file, glob or list of them; may hold $VARIABLES, and be in a bucket
      (gs://bucket/*.jsonl.gz), read where it lies. For "docs": the package's
      (or standard library's, "stdlib") import name. For "tfds": the builder's
      name or the folder, on this machine, that holds it.
    template: how a record's fields become a document's text, as
      `Title: {title} Text: {text}`. Plain text has the field `text`, "docs" has
      `name` (the qualified name) and `text`.
    target: if set, the part that the loss covers alone, as a template that
      follows `template`: template `English : {en} ; German :`, target ` {de}`.
      Each such document becomes sequences of its own.
    attribute: if set, a template for what the text obeys, `{keyword}`: for
      Auxiliary Tuning. Each such document becomes sequences of its own.
    weight: multiplies the source's natural share of the batches.
    max_documents: stop after so many; 0 means all.
    piece_chars: "text" is cut at blank lines into documents of at least this
      many characters, so that one book is not one document.
    name: how the report calls it; the code and path when empty.
    split: for "tfds", the split to read ("train" when empty). For the others,
      "train", "validation" or "test" puts the whole source there instead of
      the split by hash.
    options: what the kind's reader takes besides, see ctrl_jax/data/readers:
      `dict(subreddit="legaladvice", min_score=3)` for "reddit".
  """
  paths = (path,) if isinstance(path, str) else tuple(path)
  result = dict(
      kind=kind,
      code=code,
      path=paths,
      template=template,
      target=target,
      weight=float(weight),
      max_documents=max_documents,
      piece_chars=piece_chars,
      name=name,
      split=split,
  )
  # Left out when empty: data sets made before there were any stay what they
  # are.
  if attribute:
    result["attribute"] = attribute
  return result | (dict(options=dict(options)) if options else {})


def _tokenizer() -> ml_collections.ConfigDict:
  c = ml_collections.ConfigDict()
  # Folder of a tokenizer to load (CTRL's `codes` and `vocab`, GPT-2's files, or
  # one of this program's); "" learns one.
  c.path = ""
  # What to learn: "sentencepiece", or "fastbpe", CTRL's kind.
  c.kind = "sentencepiece"
  # Pieces to learn, reserved symbols included (the model's vocabulary). That of
  # fastBPE follows from its merges; for it, this is what `plan` supposes.
  c.vocab_size = 8192
  # Merges that fastBPE learns.
  c.num_merges = 8000
  # How fastBPE writes line ends: "generation", "training" or "huggingface", see
  # text/fastbpe.py; "" is what a loaded tokenizer says, else "generation".
  c.newlines = ""
  # SentencePiece: "bpe" or "unigram".
  c.model_type = "bpe"
  # What to learn from: "NAME=SHARE" each, a source's name or code and the share
  # of its training documents, as ("Wikipedia=1.0", "Links=0.05"); () is all of
  # every source.
  c.learn_from = ()
  # Characters of those documents to learn from, a sample; 0 means all of them,
  # for fastBPE alone: it keeps words, where SentencePiece keeps the text.
  c.train_chars = 20_000_000
  # Share of characters the alphabet must cover; the rest become unknown.
  c.character_coverage = 0.9999
  return c


def _model() -> ml_collections.ConfigDict:
  c = ml_collections.ConfigDict()
  c.d_model = 256  # Divisible by num_heads.
  c.d_ff = 1024  # Inner width of the feed-forward block.
  c.num_layers = 4
  c.num_heads = 8
  c.max_length = 256  # Positions: tokens of context, control code included.
  # "sinusoidal" (CTRL: sin and cos concatenated), "learned" (GPT-2) or "rotary"
  # (Llama: queries and keys are turned).
  c.positions = "sinusoidal"
  c.rotary_theta = 10000.0  # Base of the rotary frequencies.
  # Which elements of a head turn together: "halves" (k and K/2+k, as Hugging
  # Face's Llama) or "pairs" (2k and 2k+1, as Meta's and llama.cpp).
  c.rotary_order = "halves"
  # "relu" (CTRL), "gelu_tanh" (GPT-2) or "swiglu" (Llama: silu(gate) * up).
  c.activation = "relu"
  c.norm = "layer"  # "layer", or "rms" (Llama: no mean, no bias).
  c.layer_norm_epsilon = 1e-6  # Of either norm: CTRL 1e-6, GPT-2 1e-5.
  # Heads of keys and values; divides num_heads, 0 for as many.
  c.num_kv_heads = 0
  c.biases = True  # Of the blocks' products (Llama has none).
  c.dropout = 0.1  # On embeddings and residuals; none on attention weights.
  # "raw" adds the un-normalised x as the released CTRL does; "normalised" adds
  # LayerNorm(x) as the paper prints it.
  c.residual = "raw"
  c.scale_embedding = True  # Multiply embeddings by sqrt(d_model) (CTRL).
  c.head_bias = True  # A bias on the logits (CTRL).
  c.tied_head = True  # The head is the embedding; False gives it its own table.
  # Standard deviation of the embedding at the start (the release: 0.05).
  c.embedding_init = 0.05
  # Pads the table's rows to a multiple, so that a mesh axis divides them.
  # Padding is storage: never predicted, counted or exported.
  c.vocab_multiple = 1
  # What the backward pass keeps of a layer: "none" keeps all; "full" keeps the
  # layer's input and recomputes; "dots" keeps matrix products.
  c.remat = "none"
  # "auto" (by backend), True or False: lax.scan over layers, or unrolled.
  c.scan_layers = "auto"
  # "auto" (by backend), "float32" or "bfloat16". Parameters are float32.
  c.dtype = "auto"
  return c


def _task() -> ml_collections.ConfigDict:
  c = ml_collections.ConfigDict()
  # "language_model", or beside the frozen model of train.init_from:
  # "auxiliary_tuning", a network that steers it by the data's attributes;
  # "lora", low-rank additions to its matrices; "side_tuning", a small network
  # whose hidden states are merged with its own;
  # or "cvae", a latent between the prompts and texts of pairs (`data.truncate`,
  # `source(target=)`).
  c.name = "language_model"
  # Auxiliary Tuning: share of training rows whose attribute is left out, so
  # that guidance against "no attribute" is possible when sampling.
  c.attribute_dropout = 0.0
  return c


def _auxiliary() -> ml_collections.ConfigDict:
  c = ml_collections.ConfigDict()
  # "feature" reads the frozen model's first layers and writes through its
  # table; "independent" has an embedding and a table of its own.
  c.kind = "feature"
  # "sum" adds logits (the paper); "gate" mixes hidden states (Fan et al. 2018).
  c.combination = "sum"
  c.attribute_length = 16  # Tokens of an attribute at most.
  c.reused_layers = 2  # "feature": the frozen model's layers that are read.
  # The auxiliary's own Transformer; the rest is as in the frozen model.
  c.d_model = 128
  c.d_ff = 512
  c.num_layers = 2
  c.num_heads = 4
  c.dropout = 0.1
  return c


def _lora() -> ml_collections.ConfigDict:
  c = ml_collections.ConfigDict()
  # Of a block's matrices query, key, value, output, up, down (and Llama's gate)
  # those that get an addition; the paper's are these two.
  c.targets = ("query", "value")
  c.rank = 8
  c.alpha = 16.0  # The addition's scale is alpha / rank.
  return c


def _side() -> ml_collections.ConfigDict:
  c = ml_collections.ConfigDict()
  # R = alpha * B + (1 - alpha) * S with alpha learned from 1/2 on ("alpha",
  # Side-tuning's), or B + S ("sum").
  c.merge = "alpha"
  # "first_layers": S begins as a copy of the frozen model's first layers, which
  # must have its sizes; or "random".
  c.init = "first_layers"
  # S's own Transformer; the rest is as in the frozen model.
  c.d_model = 256
  c.d_ff = 1024
  c.num_layers = 2
  c.num_heads = 8
  c.dropout = 0.1
  return c


def _cvae() -> ml_collections.ConfigDict:
  c = ml_collections.ConfigDict()
  # The encoder's layers, at most the model's: unmasked copies of its first ones
  # at the start. (The paper: 6 of 12.)
  c.num_layers = 3
  c.latent_size = 64  # Z. (The paper: d_model.)
  # From states to one vector: "attention", multi-head with one learned query
  # (the paper), or "gelu", one head with GELU scores (the authors' code).
  c.pooling = "attention"
  # "learned", p(z|x) of the prompt; "standard", N(0, 1): a VAE without prompts;
  # "none", no latent: pseudo self-attention over the prompt's encoding alone
  # (Ziegler et al. 2019), which is injections=("encoder_sequence",).
  c.prior = "learned"
  # How z reaches the decoder, any of: "input" (1 in the paper),
  # "pseudo_self_attention" (2), "softmax" (3); Optimus' are "input" and
  # "memory". "auxiliary" is a network beside a frozen model that reads z as its
  # attribute; the section `auxiliary` sizes it.
  c.injections = ("input",)
  # "pseudo_self_attention": whether all layers have one share of z in common
  # (the authors' code without --attn_proj_vary), not each its own (the paper).
  c.shared_projection = False
  # "encoder_sequence": tokens of a prompt, control code included, that are read
  # at most; the metric `source_cut` is the share of prompts that are longer.
  c.source_length = 64
  # What the heads beside the means predict: "log_variance" (the authors' code)
  # or "log_sigma" (the paper), half of it.
  c.scale_head = "log_variance"
  # Where the posterior's heads begin: "random", or "components", the principal
  # components of training texts, which tell them apart from the first step.
  c.init_heads = "random"
  # Log-variances lie in (-bound, bound), softly: bound * tanh(x / bound).
  c.log_variance_bound = 10.0
  # "per_token", (CE_sum + beta KL) / T, is the ELBO's scale; "original",
  # CE_mean + beta KL, the authors' code's: its KL weighs T times as much.
  c.kl_scale = "per_token"
  # "cyclical": beta is low for half a cycle, rises for a quarter, is high for a
  # quarter; "constant": beta_high.
  c.beta_schedule = "cyclical"
  c.beta_period = 1000  # Steps a cycle.
  c.beta_low = 0.01
  c.beta_high = 1.0
  # Nats a dimension, on the batch's mean, that cost nothing; 0 is off.
  c.free_bits = 0.0
  # Nats a sequence, on the batch's mean, that cost nothing; 0 is off.
  c.kl_floor = 0.0
  # Weight of a loss by which z alone predicts the text's words (Zhao et al.
  # 2017), against a latent that says nothing; 0 is off. It adds [Z, V].
  c.bag_of_words = 0.0
  # Whether the posterior's mean is, beside what the encoder says, a linear
  # function of how often the text has each word (as in Miao et al. 2016). With
  # "components" it begins as what the halves of training texts agree on.
  c.reads_words = False
  # For both, a word of frequency p counts a / (a + p), this being a: 0.001
  # leaves next to nothing of the words that all texts have; 0: all count alike.
  c.word_smoothing = 0.0
  # For so many steps the model of train.init_from, and the encoder's layers,
  # stand still. (The paper: 10,000.)
  c.freeze_steps = 0
  # False: the model stays frozen for good, and the CVAE is a head beside it.
  c.train_base = True
  return c


def _optimizer() -> ml_collections.ConfigDict:
  c = ml_collections.ConfigDict()
  # adagrad, factored_adagrad (next to no state), adam, adafactor, sm3 or
  # novograd.
  c.name = "adagrad"
  c.learning_rate = 0.05  # After the warm-up.
  # The paper's values below are 25,000, 0.25 and 0.1 (configs/ctrl_1b.py). With
  # small batches for few steps updates would stay tiny with them.
  c.warmup_steps = 200  # Linear from 0.
  # Then a cosine to 0 at this step, train.steps say; 0: no decay (paper 3.2).
  c.decay_steps = 0
  c.clip_norm = 1.0  # Global norm; 0 is off.
  c.initial_accumulator = 1e-4  # Adagrad's.
  return c


def _mesh() -> ml_collections.ConfigDict:
  c = ml_collections.ConfigDict()
  # Devices an axis; one of them may be -1: all that are left.
  c.data = -1
  c.fsdp = 1
  c.tensor = 1
  return c


def _train() -> ml_collections.ConfigDict:
  c = ml_collections.ConfigDict()
  c.steps = 10_000
  c.batch_size = 16  # Sequences an update, over all devices and accumulation.
  c.accumulate = 1  # Micro-batches an update; divides batch_size.
  c.loss_chunk = 512  # Tokens whose logits exist at one time.
  c.seed = 0  # Initial parameters, order of the data, dropout.
  c.log_every = 10  # Steps.
  c.eval_every = 500  # Steps.
  c.eval_sequences = 256  # Validation sequences an evaluation; 0 means all.
  c.checkpoint_every = 500  # Steps.
  c.keep_checkpoints = 2
  c.stop_after_bad_steps = 10  # Non-finite gradients in a row.
  # Stop after this many minutes of training, this run and earlier ones of the
  # same workdir together; 0 means never.
  c.max_minutes = 0.0
  c.sample_prompts = ("",)  # Continued under each code at every evaluation.
  c.sample_tokens = 48  # 0 turns samples off.
  # Fine-tuning, and the frozen model of other tasks: whatever `ctrl_jax.load`
  # reads; "" begins at random.
  c.init_from = ""
  # A folder for the frozen model's hidden states of all training records, of
  # task.name="auxiliary_tuning": computed once, they are read instead of the
  # model being run. 4 bytes a number in model.dtype="float32", d_model numbers
  # a token and state, two states. "" for none.
  c.frozen_states = ""
  # Attention heads of a TensorFlow checkpoint; 0 for the release's.
  c.init_num_heads = 0
  # Whether to take over Adagrad's accumulators of a TensorFlow checkpoint.
  c.init_accumulators = False
  # "NEW=WORD": the control code's word NEW begins as the old model's WORD.
  c.init_codes = ()
  # How what trains is stored: "float32", or "split": matrices as bfloat16, for
  # the model, and the other 16 bits, for the optimizer. Where products are
  # bfloat16 this is float32 in less memory; see training/weights.py. Exports
  # have all 32 bits.
  c.weights = "float32"
  # How what is frozen is stored: "float32", or "bfloat16" (its matrices).
  c.frozen_weights = "float32"
  # "auto" (by backend), "threefry2x32" or "rbg": the dropout generator.
  c.prng = "auto"
  return c
