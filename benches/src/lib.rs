//! Nothing: the benchmarks lie in `benches/`, and a package needs a target that is always built.
