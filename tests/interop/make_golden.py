"""Makes `golden/*.npz` with PyTorch and Hugging Face transformers.

Run by hand where both are installed (made with torch 2, transformers 5.24):

  python tests/interop/make_golden.py

Each file holds a tiny random model's tensors as transformers names them (half
precision, to keep it small), its configuration, token ids, their logits and,
from a prompt to the end of the window, the greedy tokens at several penalties.
"""

import json
import pathlib
import re

import numpy as np
import torch
import transformers

_SIZES = dict(vocab_size=29, n_positions=12, n_embd=8, n_layer=2, n_head=2)
_WIDE = dict(vocab_size=41, n_positions=32, n_embd=18, n_layer=1, n_head=6)
_DEEP = dict(vocab_size=19, n_positions=40, n_embd=6, n_layer=4, n_head=1)
_PROMPT, _PENALTIES = [3, 1, 4, 1], (1.0, 1.2, 2.0)
_LLAMA = dict(
    vocab_size=29, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
    max_position_embeddings=12, bos_token_id=None, eos_token_id=None,
)
_FOLDER = pathlib.Path(__file__).parent / "golden"


def _ctrl(sizes, width):
  return transformers.CTRLLMHeadModel(
      transformers.CTRLConfig(**sizes, dff=width)
  )


def _gpt2(sizes, width):
  return transformers.GPT2LMHeadModel(
      transformers.GPT2Config(
          **sizes, n_inner=width, bos_token_id=0, eos_token_id=0
      )
  )


def _llama(num_heads, num_kv_heads, tied, theta, epsilon):
  return transformers.LlamaForCausalLM(
      transformers.LlamaConfig(
          **_LLAMA, num_attention_heads=num_heads,
          num_key_value_heads=num_kv_heads, tie_word_embeddings=tied,
          rope_theta=theta, rms_norm_eps=epsilon,
      )
  )


def _greedy(model, penalty):
  length = model.config.max_position_embeddings - len(_PROMPT)
  out = model.generate(
      torch.tensor([_PROMPT]), do_sample=False, max_new_tokens=length,
      min_new_tokens=length, repetition_penalty=penalty, pad_token_id=0,
      eos_token_id=None,
  )
  return out[0, len(_PROMPT):].numpy().astype(np.int32)


def main() -> None:
  torch.manual_seed(0)
  cases = {
      "ctrl": _ctrl(_SIZES, 20),
      "ctrl_wide": _ctrl(_WIDE, 10),
      "ctrl_deep": _ctrl(_DEEP, 30),
      "gpt2": _gpt2(_SIZES, 20),
      "gpt2_wide": _gpt2(_WIDE, 10),
      "gpt2_deep": _gpt2(_DEEP, 30),
      "llama": _llama(4, 2, True, 10000.0, 1e-5),
      "llama_untied": _llama(4, 1, False, 100.0, 1e-6),
      "llama_all_heads": _llama(2, 2, False, 500000.0, 1e-5),
  }
  _FOLDER.mkdir(exist_ok=True)
  for name, model in cases.items():
    generator = torch.Generator().manual_seed(0)
    model.eval()
    with torch.no_grad():
      # All leaves random (norms and biases too), so that none can be mixed up.
      # The layers' are larger, so that a tied head does not repeat its token.
      for key, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        scale = 1.0 if re.search(r"\.\d+\.", key) else 0.5
        parameter.copy_((parameter.mean() + scale * noise).half().float())
      ids = torch.randint(
          0, model.config.vocab_size, (2, 12), generator=generator
      )
      tied = model.config.tie_word_embeddings
      logits = model(ids).logits
      greedy = np.stack([_greedy(model, x) for x in _PENALTIES])
    state = {
        k: v.half().numpy()
        for k, v in model.state_dict().items()
        if k != "lm_head.weight" or not tied
    }
    np.savez_compressed(
        _FOLDER / f"{name}.npz",
        **state,
        __config__=json.dumps(model.config.to_dict()),
        __ids__=ids.numpy().astype(np.int32),
        __logits__=logits.numpy(),
        __prompt__=np.int32(_PROMPT),
        __penalties__=np.float32(_PENALTIES),
        __greedy__=greedy,
    )


if __name__ == "__main__":
  main()
