//! Kind of front that a request arrived at.

/// Kind of a front. Decides the defaults for requests that no rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontKind {
    /// The client names the destination.
    Forward,
    /// The configuration names the destination.
    Reverse,
}
