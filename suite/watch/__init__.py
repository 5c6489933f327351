"""Pages of our own on loopback: sweeps while they run, and the leaderboards beside MLflow's pages."""
