"""Tables from lines made by hand."""

import json
import math

from ctrl_jax.experiments import cvae_report, lines


def number(value):
  return dict(value=value, low=value - 1, high=value + 1)


def story_line(name, seed=0, perplexity=20.0, **more):
  parts = ("precision", "recall", "f1")
  return dict(
      method=name, seed=seed, step=3, perplexity=number(perplexity),
      word_perplexity=number(50.0), bound="exact", tokens=12_000,
      train_tokens_per_second=100.0, text_tokens=[2, 2],
      text_nll=[2 * math.log(perplexity)] * 2,
      rouge={
          kind: dict(zip(parts, map(number, (0.1, 0.2, 0.3))))
          for kind in ("rouge1", "rouge2", "rougeL")
      },
      diversity=dict(
          distinct_2=0.5, self_bleu_4=0.25, repetition_4=number(0.1)
      ),
      prompt_rank=dict(accuracy=number(0.4)),
      examples=[dict(prompt="x", text="y")], **more,
  )


def latent_line(name, **more):
  part = [number(0.1 * i) for i in range(3)]
  samples = dict(to_first=part, to_second=part)
  control = dict(
      controlled=samples, own=samples, effect=part,
      examples=[dict(first="a", second="b", text="c")],
  )
  return story_line(
      name,
      information=dict(
          kl=number(9.0), mutual_information=number(3.0),
          mutual_information_bound=6.2, prior_mutual_information=number(2.0),
          active_units=number(8), latent_size=64, sequences=500,
      ),
      bounds=dict(
          reconstruction=number(700), ablation=dict(
              another=number(12), zeros=number(11), prior_sample=number(10)
          ),
          perplexity=dict(
              elbo=number(30), importance_weighted=number(28),
              prior_samples=number(29),
              one_prior_sample=number(35),
          ),
      ),
      control=dict(prior=control, posterior=control), **more,
  )


def test_tables_samples_and_figure(tmp_path):
  lines.append(tmp_path / "finetune-0.jsonl", story_line("finetune"))
  lines.append(
      tmp_path / "finetune-1.jsonl", story_line("finetune", 1, perplexity=22.0)
  )
  lines.append(tmp_path / "cvae-0.jsonl", latent_line("cvae"))
  probed = dict.fromkeys(("knn", "linear", "most_frequent"), number(0.9))
  vae = latent_line("vae", labels=dict(
      latent=probed, base_states=probed, tf_idf=number(0.95)
  ))
  for name in ("rouge", "control", "examples"):
    del vae[name]
  lines.append(tmp_path / "vae-0.jsonl", vae)
  text = cvae_report.write(tmp_path)
  assert (tmp_path / "tables.md").read_text() == text
  parts = text.split("\n## ")
  stories, latents, control, labels = (
      [row for row in part.splitlines() if row.startswith("| ")][2:]
      for part in parts[1:]
  )
  assert [row.split(" | ")[0] for row in stories] == ["| cvae", "| finetune"]
  assert "| 21.00 [20.00, 22.00] (20.00–22.00) | – |" in stories[1]
  assert "10.0, 20.0, 30.0 [-70.0, 130.0]" in stories[1]
  # 20 against the geometric mean of 20 and 22.
  assert "| 0.953 [0.953, 0.953] |" in stories[0]
  assert stories[0].endswith("| 2 |")
  assert len(latents) == 2 and (
      "3.00 [2.00, 4.00] (log 500 = 6.20) | 2.00 [1.00, 3.00] |" in latents[0]
  )
  assert latents[0].endswith("| 35.0 [34.0, 36.0] |")
  assert "| 8 [7, 9] of 64 |" in latents[0]
  assert len(control) == 2 and control[0].endswith(
      "| 0.000 [-1.000, 1.000] | 0.100 [-0.900, 1.100] | 0.200 [-0.800, 1.200]"
      " |"
  )
  assert [row.split(" | ")[0] for row in labels] == [
      "| vae", "| base states", "| words, TF-IDF"
  ]
  samples = json.loads((tmp_path / "samples.json").read_text())
  assert samples["finetune"]["control"] == {}
  assert samples["cvae"]["control"]["prior"][0]["second"] == "b"
  assert (tmp_path / "control.png").read_bytes()[:4] == b"\x89PNG"


def test_without_any_latent_there_is_no_figure(tmp_path):
  lines.append(tmp_path / "base-0.jsonl", story_line("base"))
  cvae_report.write(tmp_path)
  assert not (tmp_path / "control.png").exists()
