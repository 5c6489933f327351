"""MLflow: what is recorded, and how it is read back."""
