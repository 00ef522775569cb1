"""Discrete speech units: the tokenizer, their packing, and what is shared with whom.

Only :mod:`voiceid.units.tokenizer` needs ONNX Runtime; the rest is importable by relying parties.
"""
