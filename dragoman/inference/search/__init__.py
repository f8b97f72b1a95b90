"""Beam search and sampling in torch operations, over any model with the three verbs of `StepModel`.

| file | content |
|---|---|
| `beam.py` | beam search |
| `sampling.py` | sampling |
| `minimum_bayes_risk.py` | choice among samples |
| `step_model.py` | the interface of models: `start`, `step`, `reorder` |
| `continuations.py` | the best next tokens, forced prefixes, forbidden ids, limits of the length |
| `hypotheses.py` | hypotheses that are being written, and finished ones |
"""
