"""Choosing parameters: folds, paths along a grid, judging by a measure.

Closed forms: queries left out, [PTA09] (33), in `leave_query_out`; two items left out, (38),
in `complete_pairs` where every two items are compared, by `leave_pair_out` in general; comparisons
in `leave_edge_out`. When two held-out scores tie is said in `ties`.
"""
