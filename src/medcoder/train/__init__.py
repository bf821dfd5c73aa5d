"""Training by dual contrastive learning."""

from medcoder.train.loop import Evaluate, Neighbours, train

__all__ = ["Evaluate", "Neighbours", "train"]
