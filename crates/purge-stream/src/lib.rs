//! A stream of NATS JetStream through which several sites share purges: its address, and a
//! connection that reads it from a position, asks for its end and publishes.
//!
//! The decisions are in [`fleet::purges::stream`]. Guarantees: messages come in order, each with
//! its number; no call waits longer than the patience of its [`Settings`], except
//! [`Reader::next`]; no text of this crate contains a password.

#![forbid(unsafe_code)]

mod address;
mod connection;

pub use address::{Credentials, InvalidAddress, StreamAddress};
pub use connection::{Connection, Message, Publisher, Reader, Settings};
