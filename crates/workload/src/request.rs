//! What a trace is to the lab: a stream of requests for objects of sites.
//!
//! Every source of requests (a generator, a reader of somebody's log) is an iterator of
//! [`Request`]; everything that consumes a workload takes such an iterator. Names are numbers here,
//! given out densely from 0 by the source, so that a consumer keeps columns instead of tables:
//! objects, sites, groups and clients each have their own numbers.

pub use store::Kind;

/// What was asked to be done with the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The whole object or a part of it.
    #[default]
    Get,
    /// Its metadata only.
    Head,
    /// Data is handed over; never answered from a cache.
    Post,
    /// Anything else.
    Other,
}

/// Somebody asks for an object. 48 bytes, so that millions of them pass quickly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Milliseconds from the beginning of the source's clock (1970 in logs, 0 in generators). In
    /// order but for what a log has out of order: servers log requests when they are done. Closed
    /// loops, as the papers' experiments, do not look at it.
    pub time_ms: u64,
    /// Bytes of the body of the current version.
    pub size: u64,
    /// Who asks.
    pub client: u32,
    /// The origin server that has the object; the same for all requests of the object.
    pub site: u32,
    /// Site and directory of the object, the same for all requests of the object.
    pub group: u32,
    /// Which object, numbered densely over all sites.
    pub object: u32,
    /// Which version of it is current: a larger number than the one seen before means that every
    /// stored copy is out of date.
    pub version: u32,
    /// The status that answered it; 200 in generators.
    pub status: u16,
    /// What was asked.
    pub method: Method,
    /// A page, or a part of one.
    pub kind: Kind,
    /// The answer must not be stored.
    pub uncacheable: bool,
}

const _: () = assert!(size_of::<Request>() <= 48);

impl Request {
    /// The version of the object that is asked for.
    pub fn object(&self) -> Object {
        let Request { site, group, version, size, kind, .. } = *self;
        Object { id: self.object, version, site, group, size, kind }
    }
}

/// One version of an object, as it lies in a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// The object's number.
    pub id: u32,
    /// The version.
    pub version: u32,
    /// The origin server.
    pub site: u32,
    /// Site and directory.
    pub group: u32,
    /// Bytes of the body.
    pub size: u64,
    /// A page, or a part of one.
    pub kind: Kind,
}
