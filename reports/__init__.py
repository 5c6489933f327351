"""What came out: leaderboards made of recorded runs. Reads records, never trains; no torch."""
