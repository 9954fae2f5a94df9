"""What is trained: initial parameters, loss, metrics, what is trainable."""
