"""What comes with the package: the open graph, the model, its vectors and its confidences."""
