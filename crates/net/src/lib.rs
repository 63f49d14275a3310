//! Sockets, the network, addresses, certificates, fleet keys, clocks and random numbers.

pub mod address;
pub mod certificate;
pub mod certificate_store;
pub mod clock;
pub mod descriptors;
pub mod fleet_key;
pub mod fleet_tls;
pub mod http2_stream;
pub mod network;
pub mod networks;
pub mod pem;
pub mod random;
pub mod socket;
