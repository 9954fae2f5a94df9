"""Loss, optimizer, sharding, train step, loop and checkpoints."""
