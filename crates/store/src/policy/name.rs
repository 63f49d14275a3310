//! The names of the policies, spelled alike in settings, commands, metrics and results.

use std::fmt;
use std::str::FromStr;

/// The name of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyName {
    /// Least recently used.
    Lru,
    /// First in, first out.
    Fifo,
    /// First in, first out with a second chance.
    Clock,
    /// SIEVE (NSDI 2024).
    Sieve,
    /// S3-FIFO (SOSP 2023).
    S3Fifo,
    /// Least frequently used, with counts halved from time to time.
    LfuAging,
    /// Greedy-Dual-Size-Frequency.
    Gdsf,
    /// W-TinyLFU.
    WTinyLfu,
}

impl PolicyName {
    /// All policies, in the order in which they are documented.
    pub const ALL: [PolicyName; 8] = [
        PolicyName::Lru,
        PolicyName::Fifo,
        PolicyName::Clock,
        PolicyName::Sieve,
        PolicyName::S3Fifo,
        PolicyName::LfuAging,
        PolicyName::Gdsf,
        PolicyName::WTinyLfu,
    ];

    /// The names in the same order.
    pub const NAMES: &[&str] =
        &["lru", "fifo", "clock", "sieve", "s3-fifo", "lfu-aging", "gdsf", "w-tinylfu"];

    /// Returns the name as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            PolicyName::Lru => "lru",
            PolicyName::Fifo => "fifo",
            PolicyName::Clock => "clock",
            PolicyName::Sieve => "sieve",
            PolicyName::S3Fifo => "s3-fifo",
            PolicyName::LfuAging => "lfu-aging",
            PolicyName::Gdsf => "gdsf",
            PolicyName::WTinyLfu => "w-tinylfu",
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The error for a name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(pub String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no eviction policy is called {:?}: choose one of", self.0)?;
        for (number, name) in PolicyName::ALL.iter().enumerate() {
            write!(f, "{} {name}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<PolicyName, UnknownPolicy> {
        PolicyName::ALL
            .into_iter()
            .find(|name| name.as_str() == text)
            .ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for name in PolicyName::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert_eq!(PolicyName::ALL.map(PolicyName::as_str), PolicyName::NAMES);
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_are_known() {
        let error = "LRU".parse::<PolicyName>().unwrap_err().to_string();
        assert!(error.starts_with("no eviction policy is called \"LRU\": choose one of lru"));
    }
}
