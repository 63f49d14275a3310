//! Where the addresses of names are looked up.

use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;
use std::{fmt, io};

/// What a name led to.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its addresses, the preferred one first.
    pub addresses: Vec<IpAddr>,
    /// How long they hold, where that is known.
    pub ttl: Option<Duration>,
}

/// A lookup under way.
pub type Looking<'a> = Pin<Box<dyn Future<Output = io::Result<Found>> + 'a>>;

/// Where names are looked up. One for all workers.
pub trait Lookup: fmt::Debug + Send + Sync {
    /// The addresses of a name that is no address itself. That there is no such name is
    /// [`io::ErrorKind::NotFound`], where that can be told.
    fn lookup<'a>(&'a self, name: &'a str) -> Looking<'a>;
}

/// The system's own resolver: everything that its `nsswitch.conf` knows, without lifetimes.
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
