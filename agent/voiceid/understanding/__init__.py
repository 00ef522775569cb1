"""From units to words, for service providers: command grammars, their decoder, and free text.

Only :mod:`voiceid.understanding.recogniser` needs ONNX Runtime.
"""
