//! Sockets, addresses, certificates, clocks.

pub mod address;
pub mod certificate;
pub mod certificate_store;
pub(crate) mod clock;
pub(crate) mod descriptors;
pub(crate) mod http2_stream;
pub(crate) mod pem;
pub(crate) mod shortage;
pub(crate) mod socket;
pub(crate) mod wall_clock;
