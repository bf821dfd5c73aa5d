"""The name of `medcoder.mapping.formats` in version 0.1. It goes in 0.3."""

from __future__ import annotations

import warnings

from medcoder.mapping.formats import export

__all__ = ["export"]

warnings.warn(
    "medcoder.mapping.exports is now medcoder.mapping.formats, and goes in 0.3",
    DeprecationWarning,
    stacklevel=2,
)
