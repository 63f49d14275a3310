//! Requests of a trace: a stream of requests for objects of sites.
//!
//! Every source of requests (a generator, a log reader) is an iterator of [`Request`]; everything
//! that consumes a workload takes such an iterator. Names are numbers, assigned densely from 0 by
//! the source, so that consumers can use columns instead of hash tables. Objects, sites, groups and
//! clients are numbered separately.

pub use store::Kind;

/// The method of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The whole object or a part of it.
    #[default]
    Get,
    /// Only the object's metadata.
    Head,
    /// Submits data; never served from a cache.
    Post,
    /// Any other method.
    Other,
}

/// A request for an object. 48 bytes, so that millions of them are processed quickly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Milliseconds since the start of the source's clock (1970 in logs, 0 in generators). In order
    /// except where a log is out of order: servers log requests when they complete. Closed loops,
    /// like the papers' experiments, ignore it.
    pub time_ms: u64,
    /// Bytes of the body of the current version.
    pub size: u64,
    /// The client.
    pub client: u32,
    /// The origin server of the object; the same for all requests of the object.
    pub site: u32,
    /// Site and directory of the object; the same for all requests of the object.
    pub group: u32,
    /// The object, numbered densely over all sites.
    pub object: u32,
    /// The current version of the object. A larger number than before means that every stored copy
    /// is out of date.
    pub version: u32,
    /// Status of the response; 200 in generators.
    pub status: u16,
    /// The method.
    pub method: Method,
    /// Kind of the object: a page or a part of one.
    pub kind: Kind,
    /// True if the response must not be stored.
    pub uncacheable: bool,
}

const _: () = assert!(size_of::<Request>() <= 48);

impl Request {
    /// Returns the requested version of the object.
    pub fn object(&self) -> Object {
        let Request { site, group, version, size, kind, .. } = *self;
        Object { id: self.object, version, site, group, size, kind }
    }
}

/// One version of an object, as a cache stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Number of the object.
    pub id: u32,
    /// Version of the object.
    pub version: u32,
    /// The origin server.
    pub site: u32,
    /// Site and directory.
    pub group: u32,
    /// Bytes of the body.
    pub size: u64,
    /// Kind of the object: a page or a part of one.
    pub kind: Kind,
}
