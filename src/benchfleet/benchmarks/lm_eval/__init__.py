"""Tasks of EleutherAI's lm-evaluation-harness, run on the loaded model."""
