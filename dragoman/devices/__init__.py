"""Torch devices, precisions, threads and memory, for everything that computes with torch."""
