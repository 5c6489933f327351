"""What a sweep writes to its tracking store."""
