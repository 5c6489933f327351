"""A board as a static site: the leaderboard over cells, and a page a cell, a method and a paper."""
