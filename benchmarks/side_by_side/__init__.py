"""Dragoman and its peers, measured side by side: see docs/explanation/benchmarks.md. `benchmarks/run.py` is the way in.

`shapes`, `corpus`    what every contender computes: sizes, data, batches
`timing`              the timed loops of the adapters and the RESULT line each prints
`train_*`             one adapter a contender: training throughput
`translate_*`         one adapter a contender: translation throughput and latency
`batches`, `marian`    for the peers in plain PyTorch and in transformers
`marian_test_set`     what the engines of one set of weights translate; `forced`: outputs of equal length
`toolkits`            how each toolkit that has its own programs is configured; `processes` runs those
`contenders`          which adapters there are and with which options; `environments`: where the peers are installed
`machine`             idle or not, and how fast at matrix products
`plan`, `rounds`      what is measured in which order, and the loop that measures it; `journal` keeps it
`results`, `report`   ratios, tables and files; `plot` draws them
"""
