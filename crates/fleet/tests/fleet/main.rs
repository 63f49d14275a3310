//! Properties of any fleet, tested on random fleets. Each test prints its seeds; set `LARDER_SEED`
//! to rerun one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod breaker;
mod class_text;
mod eviction;
mod fixture;
mod hints;
mod lookup;
mod placement;
mod purges;
