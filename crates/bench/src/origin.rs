//! The origin server: a thread that answers for every object, and notes whom it has answered.
//!
//! It keeps nothing: what is answered follows from the path and the time. Each answer carries
//! `Bench-Answer: NUMBER.VERSION`, the number of the request that it was made for and the version
//! of the object, so that whoever gets it from a cache knows which it is.

mod answer;
mod asked;
mod seen;
mod server;
mod think;

pub use seen::{Seen, Sent};
pub use server::{Counts, Options, Origin};
pub use think::Think;
