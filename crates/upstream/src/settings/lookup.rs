//! Name lookup.

use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;
use std::{fmt, io};

/// Result of a lookup.
#[derive(Clone, Debug, Default)]
pub struct FoundAddresses {
    /// Addresses, the preferred one first.
    pub addresses: Vec<IpAddr>,
    /// Lifetime of the addresses, if known.
    pub ttl: Option<Duration>,
}

/// A lookup in progress.
pub type LookupFuture<'a> = Pin<Box<dyn Future<Output = io::Result<FoundAddresses>> + 'a>>;

/// Source of addresses for names, shared by all workers.
pub trait Lookup: fmt::Debug + Send + Sync {
    /// Looks up the addresses of a name, which must not be an address itself. Returns
    /// [`io::ErrorKind::NotFound`] if the name does not exist, where the source can distinguish
    /// that.
    fn lookup<'a>(&'a self, name: &'a str) -> LookupFuture<'a>;
}

/// The system's resolver: all sources of `nsswitch.conf`, without lifetimes.
#[derive(Debug)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, name: &'a str) -> LookupFuture<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(FoundAddresses { addresses: found.map(|address| address.ip()).collect(), ttl: None })
        })
    }
}
