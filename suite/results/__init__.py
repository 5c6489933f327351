"""Results of sweeps, read from their tables: leaderboards, reports, and Optuna studies."""
