//! HTTP over sockets of this machine and of simulations, and the programs that speak it.

pub mod authority;
pub mod body;
pub mod client;
pub mod fleet_nodes;
pub mod io;
pub mod larder;
pub mod listener;
pub mod message;
pub mod origin;
pub mod peer;
pub mod random;
pub mod scripts;
