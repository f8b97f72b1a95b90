"""Measures Dragoman and its peers side by side, for `benchmarks/run.py` and `benchmarks/time_to_quality.py`.

See docs/explanation/benchmarks.md.

`shapes`, `corpus`    sizes, data and batches of all contenders
`timing`              the timed loops of the adapters, and the RESULT line of each
`train_*`             one adapter per contender: training throughput
`translate_*`         one adapter per contender: translation throughput and latency
`batches`, `marian`    helpers of the peers in plain PyTorch and in transformers
`marian_test_set`     the sentences that the engines with shared weights translate; `forced`: outputs of equal length
`toolkits`            configurations of toolkits with their own programs; `processes` runs the programs
`contenders`          all adapters and their options; `environments` installs the peers
`machine`             whether the machine is idle, and its speed of matrix products
`plan`, `rounds`      the order of measurements, and the loop that takes them; `journal` stores them
`results`, `report`   ratios, tables and files; `plot` draws them

For minutes to quality:

`quality_corpora`     the corpora; `tries` has the settings of each contender
`learning`            the task of one curve, and its scores; `learn_*` measures the curve of a contender
`curves`              minutes to a score, table, files and plot
"""
