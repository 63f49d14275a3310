//! Reasons why the store refuses an object.

/// The reason why the store refused an object. The caller serves the object all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Larger than the store's largest object.
    #[error("too large")]
    TooLarge,
    /// Rejected by the admission policy.
    #[error("not admitted")]
    NotAdmitted,
    /// No space could be freed.
    #[error("no space")]
    NoSpace,
    /// No buffer became free within the time limit, or the device stalls.
    #[error("the device is busy or does not write")]
    Busy,
    /// The device has failed or the store is shut down.
    #[error("offline")]
    Offline,
    /// The key was removed or purged after the fetch began.
    #[error("overtaken")]
    Overtaken,
    /// The body length and [`crate::Hint::size`] disagree.
    #[error("wrong length")]
    WrongLength,
}
