"""Adversarial samples and their detection by vocoders (Wu et al., 2021, arXiv:2107.00309), step by step.

An adversary adds noise too faint to hear to a recording and turns the verifier's decision round. Resynthesis by a
vocoder takes much of that noise away, so that the score moves further than it does for genuine speech; how far, tells.
"""
