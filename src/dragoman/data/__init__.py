"""From subwords to batches: memory-mapped shards and batches of similar length.

Paper: 5.1
"""
