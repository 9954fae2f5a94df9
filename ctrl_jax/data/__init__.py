"""Sources -> documents -> sequences -> records on disk -> batches."""
