//! Which kind of front end a request came by.

/// Which front end asks: they differ in what holds without a matching rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontKind {
    /// The client names the destination.
    Forward,
    /// The configuration names it.
    Reverse,
}
