"""Networks trained by others, used offline as teachers and judges."""
