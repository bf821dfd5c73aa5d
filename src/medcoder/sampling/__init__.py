"""Batches for training, each a pure function of (seed, step)."""

from medcoder.sampling.sampler import Batch, TripletSampler
from medcoder.sampling.tokens import TokenStore, tokenize_kg

__all__ = ["Batch", "TokenStore", "TripletSampler", "tokenize_kg"]
