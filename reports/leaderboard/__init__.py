"""Leaderboards: ranked rows computed from final runs, with their statistics."""
