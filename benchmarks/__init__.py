"""Speed and memory against peers and the machine's limit: ratios measured in one run."""
