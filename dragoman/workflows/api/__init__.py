"""The Python API: the names of `import dragoman` that train, load, score and inspect."""
