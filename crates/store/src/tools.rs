//! Tools that access a cache from outside: inspection, and caches with computed contents.

#[doc(hidden)]
pub mod computed;
pub(crate) mod inspect;
