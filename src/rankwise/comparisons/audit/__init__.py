"""Say which claims of a leaderboard its votes carry."""
