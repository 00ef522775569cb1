"""Model cards, finding and verifying models, and ONNX sessions."""
