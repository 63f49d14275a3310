//! `larder bench`: a load generator and an origin server for web caches of any make.
//!
//! The origin's bodies follow from what is asked for, so that the client checks every byte that a
//! cache returns; the origin notes whom it has answered, so that a hit is known by the origin not
//! having been asked, whatever the cache says. Load is offered by a schedule that does not wait for
//! answers (an open loop) or by so many clients that do (a closed one); times are counted from the
//! moment at which a request was due. What the generator itself costs, and when it was the limit,
//! is measured and said.
//!
//! It knows nothing of the engine nor of the proxy: what it tests is a program behind a socket.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod client;
pub mod commands;
pub mod compare;
pub mod load;
pub mod measure;
pub mod object;
pub mod origin;
mod poll;
pub mod report;
pub mod run;
pub mod scale;
pub mod systems;
pub mod unified;
