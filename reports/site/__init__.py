"""A board as a static site: the leaderboard over scenarios, and a page a scenario, a method and a paper."""
