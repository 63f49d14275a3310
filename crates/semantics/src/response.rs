//! Responses: age, freshness lifetime and storability.

pub mod age;
pub mod freshness;
pub mod storability;
