"""KPCRank: least squares on kernel principal components."""
