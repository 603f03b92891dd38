"""What the scripts of `benches/` share."""
