//! The lookup of names' addresses.

use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;
use std::{fmt, io};

/// The result of a lookup.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its addresses, the preferred one first.
    pub addresses: Vec<IpAddr>,
    /// Time for which they hold, where that is known.
    pub ttl: Option<Duration>,
}

/// A lookup under way.
pub type Looking<'a> = Pin<Box<dyn Future<Output = io::Result<Found>> + 'a>>;

/// A source of names' addresses. One for all workers.
pub trait Lookup: fmt::Debug + Send + Sync {
    /// Looks up the addresses of a name that is not an address itself. The error is
    /// [`io::ErrorKind::NotFound`] when there is no such name, where that can be told.
    fn lookup<'a>(&'a self, name: &'a str) -> Looking<'a>;
}

/// The system's own resolver: all sources of `nsswitch.conf`, without lifetimes.
#[derive(Debug)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, name: &'a str) -> Looking<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(Found { addresses: found.map(|address| address.ip()).collect(), ttl: None })
        })
    }
}
