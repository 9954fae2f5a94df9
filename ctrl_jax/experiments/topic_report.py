"""Table and curves of the topic task, from its lines."""

from ctrl_jax.evaluation import baseline
from ctrl_jax.experiments import cells, keyword_report, lines


def write(folder) -> str:
  """Writes what `keyword_report` does; returns table and the judge's accuracy.
  """
  text = keyword_report.write(folder)
  found = [line for of in lines.collect(folder).values() for line in of]
  right = cells.interval(found[:1], ("accuracy", "real"), 1, 100)
  return text + (
      f"\nTopics are named by {baseline.DESCRIPTION}, right on {right} % of"
      " real text as long as a sample.\n"
  )
