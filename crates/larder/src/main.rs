//! The command line of Larder: configuration, wiring, run.

fn main() {}
