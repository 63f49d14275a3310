//! What a trace is to the lab: a stream of requests for objects of servers.
//!
//! Every source of requests (a generator, a reader of somebody's log) is an iterator of
//! [`Request`]; everything that consumes a workload takes such an iterator. Names are numbers here,
//! given out densely from 0 by the source, so that a consumer keeps columns instead of tables.

/// Somebody asks for an object. Times are left out: the experiments of the papers are closed loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asks.
    pub client: u32,
    /// The origin server that has the object; the same for all requests of the object.
    pub server: u32,
    /// Which object, numbered densely over all servers.
    pub object: u32,
    /// Which version of it is current: a larger number than the one seen before means that every
    /// stored copy is out of date.
    pub version: u32,
    /// Bytes of the body of that version.
    pub size: u64,
}

impl Request {
    /// The version of the object that is asked for.
    pub fn object(&self) -> Object {
        let Request { client: _, server, object, version, size } = *self;
        Object { id: object, version, server, size }
    }
}

/// One version of an object, as it lies in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// The object's number.
    pub id: u32,
    /// The version.
    pub version: u32,
    /// The origin server.
    pub server: u32,
    /// Bytes of the body.
    pub size: u64,
}
