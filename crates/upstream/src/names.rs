//! The addresses of names.

pub mod resolver;
