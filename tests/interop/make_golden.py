"""Makes `golden/*.npz` with PyTorch and Hugging Face transformers.

Run by hand where both are installed (made with torch 2, transformers 5.24):

  python tests/interop/make_golden.py

Each file holds a tiny random model's tensors as transformers names them (half
precision, to keep it small), its configuration, token ids and their logits.
"""

import json
import pathlib

import numpy as np
import torch
import transformers

_SIZES = dict(vocab_size=29, n_positions=12, n_embd=8, n_layer=2, n_head=2)
_LLAMA = dict(
    vocab_size=29, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
    max_position_embeddings=12, bos_token_id=None, eos_token_id=None,
)
_FOLDER = pathlib.Path(__file__).parent / "golden"


def _llama(num_heads, num_kv_heads, tied, theta, epsilon):
  return transformers.LlamaForCausalLM(
      transformers.LlamaConfig(
          **_LLAMA, num_attention_heads=num_heads,
          num_key_value_heads=num_kv_heads, tie_word_embeddings=tied,
          rope_theta=theta, rms_norm_eps=epsilon,
      )
  )


def main() -> None:
  cases = {
      "ctrl": transformers.CTRLLMHeadModel(
          transformers.CTRLConfig(**_SIZES, dff=20)
      ),
      "gpt2": transformers.GPT2LMHeadModel(
          transformers.GPT2Config(
              **_SIZES, n_inner=20, bos_token_id=0, eos_token_id=0
          )
      ),
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
      for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.copy_((parameter.mean() + 0.5 * noise).half().float())
      ids = torch.randint(0, 29, (2, 12), generator=generator)
      tied = model.config.tie_word_embeddings
      logits = model(ids).logits
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
    )


if __name__ == "__main__":
  main()
