//! Timeouts of origin servers for the requests of a rule.

use std::borrow::Cow;
use std::time::Duration;

use upstream::settings::limits::UpstreamLimits;

/// Timeouts that replace those of [`UpstreamLimits`] with the same names; `None` keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Timeouts {
    pub connect: Option<Duration>,
    pub head: Option<Duration>,
    pub body: Option<Duration>,
}

impl Timeouts {
    /// Returns these timeouts, with those of a later rule in place of them.
    pub(super) fn then(self, later: Timeouts) -> Timeouts {
        Timeouts {
            connect: later.connect.or(self.connect),
            head: later.head.or(self.head),
            body: later.body.or(self.body),
        }
    }

    /// Returns limits with these timeouts.
    pub(crate) fn of(self, limits: &UpstreamLimits) -> Cow<'_, UpstreamLimits> {
        if self == Timeouts::default() {
            return Cow::Borrowed(limits);
        }
        Cow::Owned(UpstreamLimits {
            connect_timeout: self.connect.unwrap_or(limits.connect_timeout),
            head_timeout: self.head.unwrap_or(limits.head_timeout),
            body_timeout: self.body.unwrap_or(limits.body_timeout),
            ..limits.clone()
        })
    }
}
