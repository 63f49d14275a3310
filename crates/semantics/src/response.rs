//! What a response permits: its age, how long it is fresh, whether it may be stored.

pub mod age;
pub mod disguise;
pub mod freshness;
pub mod storability;
