//! Responses: their age, how long they are fresh, whether they may be stored.

pub mod age;
pub mod freshness;
pub mod storability;
