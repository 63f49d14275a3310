//! Shared parts of the declarations: bounds, and the type of a setting.

use std::time::Duration;

use crate::config::configuration::Config;
use crate::config::setting::Field;
use crate::config::value::Kind;

/// A key outside the repeated tables.
pub type Setting = Field<Config>;

pub const K: u64 = 1 << 10;
pub const M: u64 = 1 << 20;
pub const MANY: u64 = u32::MAX as u64;
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
pub const fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3600)
}
/// The longest lifetime that HTTP can express, 2^31 seconds.
pub const YEARS: Duration = Duration::from_secs(1 << 31);
/// A timeout. It is never zero, which would refuse everything.
pub const TIMEOUT: Kind = Kind::Time(ms(10), hours(24));
