"""RankRLS in closed form, its exact hold-outs, and honest estimates from small samples."""
