//! A request of a workload, before it is due.

use workload::request::{Kind as PageOrPart, Method as Asked, Request};

use super::name::{Kind, Object};

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
    /// The number of the node that receives the request; `None`: each in turn.
    pub node: Option<usize>,
}

impl From<&Request> for Ask {
    /// Converts a request of a generator or a trace. A changed document gets a new name, because
    /// logs do not tell when a cache learns of a change.
    fn from(request: &Request) -> Ask {
        let object = Object {
            id: u64::from(request.object),
            group: u64::from(request.group),
            size: request.size,
            revision: request.version,
            cycle: 0,
            uncacheable: request.uncacheable,
            kind: match request.kind {
                PageOrPart::Html => Kind::Html,
                _ => Kind::Other,
            },
        };
        let method = match request.method {
            Asked::Get | Asked::Other => Method::Get,
            Asked::Head => Method::Head,
            Asked::Post => Method::Post,
        };
        Ask { object, method, ..Ask::default() }
    }
}
