"""Models: one file each. Every network returns `Output` (logits, features, maps)."""
