"""Tasks in lm-eval's format that lm-eval lacks: LooGLE, and LongBench v2 answered in words."""
