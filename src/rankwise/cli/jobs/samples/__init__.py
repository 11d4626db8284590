"""Jobs about small samples: how good on unseen items, and whether by chance."""
