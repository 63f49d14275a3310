//! What looks at a cache from outside: inspection, and caches whose bytes are computed.

#[doc(hidden)]
pub mod computed;
pub(crate) mod inspect;
