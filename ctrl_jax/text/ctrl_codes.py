"""The control codes of the released CTRL, with their share of its data.

Source: salesforce/ctrl a089a0c, control_codes.txt (the paper's Table 7 lists 50
of them with their sources).
"""

import pathlib

from ctrl_jax import errors

FILE = "control_codes.txt"

# In the release's order.
PRIORS = {
    "Pregnancy": 0.000296793,
    "Christianity": 0.000127197,
    "Explain": 0.003084531,
    "Fitness": 0.000180196,
    "Saving": 6.88985E-05,
    "Ask": 0.000217295,
    "Ass": 8.47981E-05,
    "Joke": 0.000143097,
    "Questions": 0.000196096,
    "Thoughts": 0.000127197,
    "Retail": 0.000169596,
    "Feminism": 0.000270294,
    "Writing": 0.000111298,
    "Atheism": 0.000402791,
    "Netflix": 1.05998E-06,
    "Computing": 0.000365692,
    "Opinion": 0.000132497,
    "Alone": 0.000169596,
    "Funny": 0.000323293,
    "Gaming": 0.000249094,
    "Human": 0.000402791,
    "India": 0.000132497,
    "Joker": 2.11995E-08,
    "Diet": 0.000201395,
    "Legal": 0.000238495,
    "Norman": 6.35986E-06,
    "Tip": 3.60392E-07,
    "Weight": 0.000302093,
    "Movies": 0.000132497,
    "Running": 0.000111298,
    "Science": 7.41983E-05,
    "Horror": 0.00135147,
    "Confession": 0.000291493,
    "Finance": 0.000190796,
    "Politics": 0.000413391,
    "Scary": 7.41983E-05,
    "Support": 0.000206695,
    "Technologies": 6.35986E-05,
    "Teenage": 0.000243795,
    "Event": 0.000217295,
    "Learned": 0.000206695,
    "Notion": 0.000121897,
    "Wikipedia": 0.0847981,
    "Books": 0.095927851,
    "Extract": 0.001176574,
    "Confessions": 0.000127197,
    "Conspiracy": 0.000227895,
    "Links": 0.365691808,
    "Narcissus": 0.000423991,
    "Relationship": 0.000280894,
    "Relationships": 0.000922179,
    "Reviews": 0.153696557,
    "News": 0.043877717,
    "Translation": 0.129847091,
    "multilingual": 0.111297507,
}


def read(file) -> dict[str, float]:
  """Reads a `control_codes.txt`: a line each, the share and the code.

  Raises:
    errors.UserError: the file is not UTF-8, or a line is something else.
  """
  file = pathlib.Path(file)
  found = {}
  try:
    lines = file.read_text(encoding="utf-8").splitlines()
  except UnicodeDecodeError as e:
    raise errors.UserError(
        f"{file} is not UTF-8 (byte {e.start}): it is damaged. Copy it again."
    ) from e
  for number, line in enumerate(lines, 1):
    if not line.strip():
      continue
    try:
      share, code = line.split(maxsplit=1)
      found[code.strip()] = float(share)
    except ValueError as e:
      raise errors.UserError(
          f"{file}, line {number}: expected a share and a control code, as in"
          " `0.00028  Relationship`."
      ) from e
  return found
