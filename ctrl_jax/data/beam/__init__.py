"""`prepare` on Apache Beam: the same data set, made by many machines.

documents -> rows -> builder: which documents are taken, the rows they make, and
tensorflow-datasets' Beam builder that writes them. `build` runs it all;
`learning` samples what a tokenizer learns from. The extra `beam` installs
what it needs.
"""
