"""Search over a step function: greedy, beam, sampling, forced scores. It never knows the model.

Paper: 6.1
"""
