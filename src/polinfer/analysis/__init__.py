"""What an answer is worth: evaluation, comparison, explanation, bounds and certificates."""
