"""Results of other harnesses, imported into cells of a campaign.

`read_results` finds the format. Each format has a file: `lm_eval`, `inspect_logs` and
`attention_hub`. `match` finds the cell of each result, and `publish` seals it as the cell's.
"""
