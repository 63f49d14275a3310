//! What holds for any fleet, shown with random ones. Each test prints its seeds; one alone runs
//! again with `LARDER_SEED`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod breaker;
mod class_text;
mod eviction;
mod fixture;
mod hints;
mod lookup;
mod placement;
