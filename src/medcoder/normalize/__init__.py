"""Strings to ranked concepts, with filters, abstention and reasons."""

from __future__ import annotations

from medcoder.normalize.normalizer import Normalizer

__all__ = ["Normalizer"]
