"""Training: loss, schedule, optimizer, steps, validation, checkpoints, averaging.

Paper: 5
"""
