"""Search over a step function: greedy, beam, sampling, forced scores. It never knows the model.

Paper: 6.1
"""

from dragoman.search.beam import beam_search
from dragoman.search.ensemble import Ensemble
from dragoman.search.length import length_penalty
from dragoman.search.options import SearchOptions
from dragoman.search.rescore import ForcedScore, forced_scores, token_log_probabilities
from dragoman.search.sampling import SamplingOptions, sample
from dragoman.search.step import Hypothesis, StepFunction

__all__ = [
    "Ensemble",
    "ForcedScore",
    "Hypothesis",
    "SamplingOptions",
    "SearchOptions",
    "StepFunction",
    "beam_search",
    "forced_scores",
    "length_penalty",
    "sample",
    "token_log_probabilities",
]
