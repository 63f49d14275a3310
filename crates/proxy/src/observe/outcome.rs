//! The outcome of a request: one enum, one set of names, used alike in the access log, the metrics
//! and the `Cache-Status` header.
//!
//! A name is a word (`HIT_RAM`), with its reason behind it where there are several
//! (`BYPASS(range)`). Names and reasons are part of the product's interface: dashboards and log
//! analysers match on them, so an existing one never changes its meaning.
//!
//! [`Outcome::index`] numbers them densely, so that counters are an array. The enum promises
//! nothing about headers or bodies; it is `Copy` and one or two bytes.

use std::borrow::Cow;
use std::fmt;

/// Defines an enum of reasons with their kebab-case names, in one place.
macro_rules! reasons {
    ($(#[$doc:meta])* $enum:ident { $($(#[$vdoc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $enum { $($(#[$vdoc])* $variant,)+ }

        impl $enum {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns the name as it appears in logs, metrics and headers.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }

        impl fmt::Display for $enum {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

reasons! {
    /// The reason why a stale answer was given (RFC 9111 section 4.2.4, RFC 5861).
    Stale {
        /// Within `stale-while-revalidate`; the validation runs behind it.
        WhileRevalidate = "while-revalidate",
        /// The origin answered with an error and `stale-if-error` allows it.
        IfError = "if-error",
        /// The origin could not be reached and nothing forbids it.
        Unreachable = "unreachable",
        /// The request's `max-stale` allows it.
        MaxStale = "max-stale",
    }
}

reasons! {
    /// The reason why the cache was not used for a request that was forwarded.
    Bypass {
        /// The method is not one that a cache answers.
        Method = "method",
        /// A range that was not stored: forwarded as it came.
        Range = "range",
        /// A range beyond what the running fill holds.
        RangeBeyondFill = "range-beyond-fill",
        /// The running or remembered answer is not shareable.
        NotShareable = "not-shareable",
        /// The running fill is of another variant.
        Variant = "variant",
        /// The request carries `Authorization` that the stored answer does not allow.
        Authorization = "authorization",
        /// The request says `no-store`.
        NoStore = "no-store",
        /// The request asks for a change of protocol, and the answer is another one.
        Upgrade = "upgrade",
        /// The request has a precondition that only the origin can evaluate.
        Precondition = "precondition",
        /// The URL is longer than the store's longest key.
        LongUrl = "long-url",
        /// No buffer could be had, or the store stalls.
        Busy = "busy",
        /// The store is dead or absent.
        Offline = "offline",
        /// The configuration says so.
        Rule = "rule",
    }
}

reasons! {
    /// The reason why the request ended with an error of the proxy's own (5xx, or a cut transfer).
    Error {
        /// The origin's name could not be resolved.
        Dns = "dns",
        /// The origin's name was not resolved in time.
        DnsTimeout = "dns-timeout",
        /// No connection to the upstream.
        Connect = "connect",
        /// The upstream refused the connection: nothing listens there.
        ConnectRefused = "connect-refused",
        /// No connection to the upstream in time.
        ConnectTimeout = "connect-timeout",
        /// No TLS connection to the upstream: the two have no common version or cipher, or the
        /// handshake failed otherwise.
        Tls = "tls",
        /// The upstream ended the TLS handshake with an alert.
        TlsAlert = "tls-alert",
        /// The upstream's certificate does not prove its identity.
        Certificate = "tls-certificate",
        /// All upstreams of the site are out of use.
        NoUpstream = "no-upstream",
        /// All upstreams of the site have as many requests as they may.
        UpstreamBusy = "upstream-busy",
        /// The upstream closed or broke the connection before a whole answer.
        Upstream = "upstream",
        /// The upstream sent no answer, or no more of it, in time.
        UpstreamTimeout = "upstream-timeout",
        /// The upstream's answer is not HTTP, or over a limit.
        BadAnswer = "bad-answer",
        /// The fetch made no progress, and others needed the memory that it held.
        Memory = "memory",
        /// `only-if-cached`, and it is not (504, RFC 9111 section 5.2.1.7).
        OnlyIfCached = "only-if-cached",
        /// A stored object turned out damaged or gone while it was sent.
        Store = "store",
        /// The request came back to this proxy.
        Loop = "loop",
        /// Too many connections or fills.
        Overload = "overload",
        /// The proxy is shutting down.
        Draining = "draining",
        /// A broken invariant of the proxy itself.
        Internal = "internal",
    }
}

reasons! {
    /// The reason why a request was refused by the access rules (see [`crate::rules::access`]).
    Denied {
        /// The client may not use this proxy.
        Client = "client",
        /// A configured rule says no.
        Rule = "rule",
        /// A `CONNECT` to a port that is not open for it.
        ConnectPort = "connect-port",
        /// The destination is one of the proxy's own listeners.
        OwnAddress = "own-address",
        /// The destination is on this machine or on a private network, the client is not.
        PrivateAddress = "private-address",
        /// A `PURGE` from an address that may not.
        Purge = "purge",
        /// A rule refuses changes of the protocol.
        Upgrade = "upgrade",
    }
}

reasons! {
    /// The reason why a request was refused as such (4xx of the proxy's own).
    Invalid {
        /// Not HTTP, or broken syntax (400).
        Syntax = "syntax",
        /// None, several or a contradicting Host (400).
        Host = "host",
        /// A target of the wrong form for this front (400).
        Target = "target",
        /// A scheme that the proxy does not speak (400 or 501).
        Scheme = "scheme",
        /// A method that this front does not take (405 or 501).
        Method = "method",
        /// A site that is not served here (421), or a path that no site of the host is for (404).
        Misdirected = "misdirected",
        /// Head or header count over the limit (431).
        HeadSize = "head-size",
        /// Target over the limit (414).
        TargetSize = "target-size",
        /// Body over the limit, or its length contradictory (413, 400).
        Body = "body",
        /// Head or body too slow (408).
        Timeout = "timeout",
        /// An expectation that cannot be met (417).
        Expectation = "expectation",
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Stored, fresh, and no read of the device was needed.
    HitRam,
    /// Stored, fresh, read from the device.
    HitDisk,
    /// Streamed from a fill that another request had begun.
    HitFill,
    /// Stored at another node of the fleet, which answered.
    HitPeer,
    /// Not stored: fetched from the upstream.
    Miss,
    /// Stored but stale; the upstream said 304 and the stored body was served.
    Revalidated,
    /// Stored but stale; the upstream sent a new answer.
    Refreshed,
    /// Stored and stale, served all the same.
    Stale(Stale),
    /// Forwarded past the cache.
    Bypass(Bypass),
    /// Answered with an error of the proxy's own, or cut.
    Error(Error),
    /// Refused by the access rules.
    Denied(Denied),
    /// A tunnel, of a `CONNECT` or of a connection that changed its protocol.
    Tunnel,
    /// A `PURGE`, understood or not.
    Purge,
    /// What another node of the fleet told, or asked besides documents.
    Fleet,
    /// Refused as a request.
    Invalid(Invalid),
}

/// The count of outcomes without a reason; those with one are numbered behind them.
const PLAIN: usize = 10;
const STALE: usize = PLAIN;
const BYPASS: usize = STALE + Stale::ALL.len();
const ERROR: usize = BYPASS + Bypass::ALL.len();
const DENIED: usize = ERROR + Error::ALL.len();
const INVALID: usize = DENIED + Denied::ALL.len();

impl Outcome {
    /// The count of outcomes, each reason counted.
    pub const COUNT: usize = INVALID + Invalid::ALL.len();

    /// Returns the name without the reason: `BYPASS`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HitRam => "HIT_RAM",
            Self::HitDisk => "HIT_DISK",
            Self::HitFill => "HIT_FILL",
            Self::HitPeer => "HIT_PEER",
            Self::Miss => "MISS",
            Self::Revalidated => "REVALIDATED",
            Self::Refreshed => "REFRESHED",
            Self::Stale(_) => "STALE",
            Self::Bypass(_) => "BYPASS",
            Self::Error(_) => "ERROR",
            Self::Denied(_) => "DENIED",
            Self::Tunnel => "TUNNEL",
            Self::Purge => "PURGE",
            Self::Fleet => "FLEET",
            Self::Invalid(_) => "INVALID",
        }
    }

    /// Returns the reason, where the outcome has one: `range`.
    pub const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Stale(r) => Some(r.name()),
            Self::Bypass(r) => Some(r.name()),
            Self::Error(r) => Some(r.name()),
            Self::Denied(r) => Some(r.name()),
            Self::Invalid(r) => Some(r.name()),
            _ => None,
        }
    }

    /// Returns the name with the reason, if there is one: `HIT_RAM`, `BYPASS(range)`.
    pub fn text(self) -> Cow<'static, str> {
        match self.reason() {
            Some(reason) => Cow::Owned(format!("{}({reason})", self.name())),
            None => Cow::Borrowed(self.name()),
        }
    }

    /// Returns a dense number below [`Outcome::COUNT`], for arrays of counters.
    pub const fn index(self) -> usize {
        match self {
            Self::HitRam => 0,
            Self::HitDisk => 1,
            Self::HitFill => 2,
            Self::Miss => 3,
            Self::Revalidated => 4,
            Self::Refreshed => 5,
            Self::Tunnel => 6,
            Self::Purge => 7,
            Self::HitPeer => 8,
            Self::Fleet => 9,
            Self::Stale(r) => STALE + r as usize,
            Self::Bypass(r) => BYPASS + r as usize,
            Self::Error(r) => ERROR + r as usize,
            Self::Denied(r) => DENIED + r as usize,
            Self::Invalid(r) => INVALID + r as usize,
        }
    }

    /// Returns every outcome, in the order of [`Outcome::index`].
    pub fn all() -> impl Iterator<Item = Outcome> {
        [
            Self::HitRam,
            Self::HitDisk,
            Self::HitFill,
            Self::Miss,
            Self::Revalidated,
            Self::Refreshed,
            Self::Tunnel,
            Self::Purge,
            Self::HitPeer,
            Self::Fleet,
        ]
        .into_iter()
        .chain(Stale::ALL.iter().map(|&r| Self::Stale(r)))
        .chain(Bypass::ALL.iter().map(|&r| Self::Bypass(r)))
        .chain(Error::ALL.iter().map(|&r| Self::Error(r)))
        .chain(Denied::ALL.iter().map(|&r| Self::Denied(r)))
        .chain(Invalid::ALL.iter().map(|&r| Self::Invalid(r)))
    }

    /// Returns whether the body came from the cache (or a running fill), fresh or not.
    pub const fn is_hit(self) -> bool {
        matches!(
            self,
            Self::HitRam
                | Self::HitDisk
                | Self::HitFill
                | Self::HitPeer
                | Self::Revalidated
                | Self::Stale(_)
        )
    }

    /// Returns the result code of Squid's native log that existing analysers know; `aborted` when
    /// the client left or the transfer was cut.
    pub const fn squid_code(self, aborted: bool) -> &'static str {
        /// The code, and the same with the suffix that Squid uses.
        macro_rules! code {
            ($code:literal) => {
                if aborted { concat!($code, "_ABORTED") } else { $code }
            };
        }
        match self {
            Self::HitRam => code!("TCP_MEM_HIT"),
            Self::HitDisk => code!("TCP_HIT"),
            Self::HitFill => code!("TCP_CF_HIT"),
            Self::Revalidated => code!("TCP_REFRESH_UNMODIFIED"),
            Self::Refreshed => code!("TCP_REFRESH_MODIFIED"),
            Self::Stale(Stale::IfError | Stale::Unreachable) => code!("TCP_REFRESH_FAIL_OLD"),
            Self::Stale(Stale::WhileRevalidate | Stale::MaxStale) => code!("TCP_HIT"),
            Self::Error(Error::DnsTimeout | Error::ConnectTimeout | Error::UpstreamTimeout) => {
                code!("TCP_MISS_TIMEDOUT")
            }
            // Who had it is told beside the code.
            Self::HitPeer
            | Self::Miss
            | Self::Bypass(_)
            | Self::Error(_)
            | Self::Purge
            | Self::Fleet => {
                code!("TCP_MISS")
            }
            Self::Denied(_) => code!("TCP_DENIED"),
            Self::Tunnel => code!("TCP_TUNNEL"),
            Self::Invalid(_) => code!("NONE_NONE"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_names_unique() {
        let all: Vec<Outcome> = Outcome::all().collect();
        assert_eq!(all.len(), Outcome::COUNT);
        for (i, outcome) in all.iter().enumerate() {
            assert_eq!(outcome.index(), i, "{outcome}");
        }
        let mut names: Vec<String> = all.iter().map(|o| o.to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Outcome::COUNT);
    }

    #[test]
    fn names_as_documented() {
        assert_eq!(Outcome::HitRam.to_string(), "HIT_RAM");
        assert_eq!(Outcome::Bypass(Bypass::Range).to_string(), "BYPASS(range)");
        assert_eq!(Outcome::Error(Error::ConnectTimeout).to_string(), "ERROR(connect-timeout)");
    }

    #[test]
    fn squid_codes() {
        assert_eq!(Outcome::HitRam.squid_code(false), "TCP_MEM_HIT");
        assert_eq!(Outcome::HitDisk.squid_code(true), "TCP_HIT_ABORTED");
        assert_eq!(Outcome::Stale(Stale::IfError).squid_code(false), "TCP_REFRESH_FAIL_OLD");
        let error = Outcome::Error(Error::UpstreamTimeout);
        assert_eq!(error.squid_code(false), "TCP_MISS_TIMEDOUT");
        assert_eq!(Outcome::Invalid(Invalid::Host).squid_code(false), "NONE_NONE");
    }
}
