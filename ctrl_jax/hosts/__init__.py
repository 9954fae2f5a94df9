"""Several processes, one training: who they are, and how they keep together."""
