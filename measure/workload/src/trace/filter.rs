//! The rule by which requests of a trace count.

/// The requests of a trace that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// Only requests whose responses `larder serve` stores by default.
    #[default]
    Served,
    /// Only those that the papers counted (C17): no queries and programs, six statuses, and of
    /// Squid's outcomes eight. Each difference in size is a new version.
    Papers,
    /// All requests.
    All,
}
