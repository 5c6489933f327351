"""What scripts may rely on, as docs/reference.md promises it."""

NAMES = """algorithm paper dataset model heterogeneity rank mean ci_low ci_high seeds failed_seeds trials
rounds_to_target reached_share client_steps uploaded_bytes params"""
FIELDS = {*NAMES.split()}
"""Fields of a row of `suite leaderboard --json`."""
