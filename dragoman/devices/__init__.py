"""Torch devices, precisions, threads, memory and checks of tensors, for everything that computes with torch."""
