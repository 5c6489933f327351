"""Leaderboards: final runs in, ranked rows and their wording out."""
