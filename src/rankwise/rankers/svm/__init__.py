"""RankSVM: hinge losses over pairs, to a certified gap."""
