//! Chores of the project: continuous integration, benchmarks, long tests.

fn main() {}
