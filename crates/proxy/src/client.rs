//! What a client's connection has and may do: its state, its limits, the bodies it sends.

pub(crate) mod http2_body;
pub(crate) mod request_body;
pub(crate) mod upload_rate;
