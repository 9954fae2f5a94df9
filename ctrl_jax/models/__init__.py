"""Flax Linen modules and the functions over their parameter trees."""
