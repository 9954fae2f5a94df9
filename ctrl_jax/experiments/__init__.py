"""Experiments of the papers, run again: methods, measures, tables, curves."""
