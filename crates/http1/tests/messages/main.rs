//! Randomised tests of reading and writing messages. A failing test prints its seed;
//! `LARDER_SEED=<seed> cargo test -p http1` runs it again.

#![allow(clippy::unwrap_used)]

mod agreement;
mod draw;
mod hyper_peer;
mod reader;
mod round_trips;
mod splits;
