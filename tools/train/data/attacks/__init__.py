"""Artificial speech for training and development: one module a system, all made from the training and development splits."""
