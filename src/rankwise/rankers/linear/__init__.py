"""LinearRankRLS: large or sparse data, in memory or streamed from files."""
