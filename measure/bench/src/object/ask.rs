//! A request of a workload, before it is due.

use super::name::Object;

/// The method of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Requests the object.
    #[default]
    Get,
    /// Requests only the head of the object.
    Head,
    /// Sends a body; the response is not stored.
    Post,
}

impl Method {
    /// Returns the name in HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
        }
    }
}

/// The condition of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Unconditional.
    #[default]
    None,
    /// If modified since a time before the last modification, so it was (PolyMix's IMS-200).
    Since200,
    /// If modified since the last modification, so it was not (PolyMix's IMS-304).
    Since304,
    /// A reload: caches must not respond without asking the origin.
    Reload,
}

/// A request of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ask {
    /// The requested object.
    pub object: Object,
    /// The method.
    pub method: Method,
    /// The condition.
    pub condition: Condition,
    /// The first byte, and the one after the last; `None`: the whole object.
    pub range: Option<(u64, u64)>,
    /// The time in the workload, in milliseconds of its own clock; `None`: it has no times.
    pub at_ms: Option<u64>,
    /// True if the client closes the connection before the response is complete.
    pub aborts: bool,
}
