//! Randomised tests of the caching rules, all replayable.
//!
//! A failing test prints its seed; `LARDER_SEED=<seed> cargo test -p larder-semantics` runs it
//! again. Without the variable each run draws a new seed.

#![allow(clippy::unwrap_used)]

mod bytes;
mod differential;
mod properties;
mod readme;
mod seed;
mod views;
