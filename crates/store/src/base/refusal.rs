//! Reasons for which the store does not take an object.

use std::fmt;

/// Why the store did not take an object. The caller serves it all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Larger than the store's largest object.
    TooLarge,
    /// The admission policy said no.
    NotAdmitted,
    /// No room could be made.
    NoSpace,
    /// No buffer could be had within the bound, or the device stalls.
    Busy,
    /// The device is dead or the store is shut down.
    Offline,
    /// The key was removed or purged after the fetch began.
    Overtaken,
    /// Body length and [`crate::Hint::size`] disagree.
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
