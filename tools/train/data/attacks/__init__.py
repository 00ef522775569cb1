"""Artificial speech for training and development: one module a system, made from training and development speech."""
