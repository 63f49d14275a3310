//! Reasons why the store refuses an object.

use std::fmt;

/// The reason why the store refused an object. The caller serves the object all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Larger than the store's largest object.
    TooLarge,
    /// Rejected by the admission policy.
    NotAdmitted,
    /// No space could be freed.
    NoSpace,
    /// No buffer became free within the time limit, or the device stalls.
    Busy,
    /// The device has failed or the store is shut down.
    Offline,
    /// The key was removed or purged after the fetch began.
    Overtaken,
    /// The body length and [`crate::Hint::size`] disagree.
    WrongLength,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::TooLarge => "too large",
            Refusal::NotAdmitted => "not admitted",
            Refusal::NoSpace => "no space",
            Refusal::Busy => "the device is busy or does not write",
            Refusal::Offline => "offline",
            Refusal::Overtaken => "overtaken",
            Refusal::WrongLength => "wrong length",
        })
    }
}
