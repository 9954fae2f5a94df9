"""Other programs' formats: Hugging Face folders."""
