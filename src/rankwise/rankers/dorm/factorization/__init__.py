"""RankingFactorization: factors of users and items trained for a measure."""
