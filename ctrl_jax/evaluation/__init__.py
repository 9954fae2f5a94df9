"""Perplexity, attribution, baselines and plots."""
