"""The trained parts: encoder, relations, losses. The only room, with `train`, that knows torch."""
