//! The kind of front end that a request came by.

/// The kind of a front end, which decides what holds without a matching rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontKind {
    /// The client names the destination.
    Forward,
    /// The configuration names it.
    Reverse,
}
