//! What is asked of an object: a request, before it is due.

use super::name::Object;

/// What is asked to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The object.
    #[default]
    Get,
    /// Its head.
    Head,
    /// Something is sent; the answer is not stored.
    Post,
}

impl Method {
    /// Its name in HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
        }
    }
}

/// Under which condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// None.
    #[default]
    None,
    /// If it was modified since a time before its last modification: it was (PolyMix's IMS-200).
    Since200,
    /// If it was modified since its last modification: it was not (PolyMix's IMS-304).
    Since304,
    /// No cache may answer without asking the origin (a reload).
    Reload,
}

/// A request of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ask {
    /// For what.
    pub object: Object,
    /// How.
    pub method: Method,
    /// Under which condition.
    pub condition: Condition,
    /// The first byte, and the one behind the last; `None`: all.
    pub range: Option<(u64, u64)>,
    /// When the workload has it, in milliseconds of its own clock; `None`: it has no times.
    pub at_ms: Option<u64>,
    /// Whoever asks closes the connection before all of the answer has come.
    pub aborts: bool,
}
