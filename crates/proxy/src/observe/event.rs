//! Events counted besides requests.

/// A counted event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client connection was accepted.
    ConnectionOpened,
    /// A client connection ended.
    ConnectionClosed,
    /// An idle client connection was closed to free its permit or descriptor.
    ConnectionReclaimed,
    /// A client connection was closed because its address had reached its connection limit.
    AddressLimitReached,
    /// Bytes received from clients, including heads and tunnels.
    BytesReceived,
    /// Bytes sent to clients, including heads and tunnels.
    BytesSent,
    /// A fetch for the cache began.
    FillBegun,
    /// A fetch for the cache ended with its response stored.
    FillStored,
    /// A fetch for the cache ended with a 304: the stored response is valid.
    FillValidated,
    /// A fetch for the cache completed without storing its response.
    FillUnstored,
    /// A fetch for the cache was aborted.
    FillAborted,
    /// A request joined a running fetch.
    FollowerJoined,
    /// A connection to an upstream was opened.
    UpstreamConnected,
    /// A request was sent to an upstream on an existing connection.
    UpstreamReused,
    /// A request was retried because its reused connection had died.
    UpstreamRetried,
    /// A connection to an upstream was closed because bytes followed the end of a response.
    UpstreamOverrun,
    /// A TLS handshake with a client succeeded.
    TlsHandshake,
    /// A TLS handshake with a client resumed an earlier session; also counted as
    /// [`Event::TlsHandshake`].
    TlsResumed,
    /// A TLS handshake with a client failed or timed out.
    TlsFailed,
    /// A connection was refused because it lacked a valid PROXY protocol header from a trusted
    /// peer.
    ProxyHeaderRefused,
    /// A connection uses HTTP/1.
    Http1Connection,
    /// A connection uses HTTP/2.
    Http2Connection,
    /// A tunnel was opened.
    TunnelOpened,
    /// A tunnel ended.
    TunnelClosed,
    /// An idle tunnel was closed to free its permit.
    TunnelDisplaced,
    /// A client connection or one of its streams changed its protocol; a tunnel follows.
    Upgraded,
    /// A lookup found no stored response (systems C12).
    CacheMiss,
    /// A lookup found a response in memory that may be served.
    MemoryHit,
    /// A lookup found a response in memory that must be validated.
    MemoryStaleHit,
    /// A lookup found a response on the device that may be served.
    DiskHit,
    /// A lookup found a response on the device that must be validated.
    DiskStaleHit,
    /// A conditional request for a cacheable response was answered with 304.
    ConditionalHit,
    /// A conditional request for a cacheable response was answered with another status.
    ConditionalMiss,
    /// A neighbour of a validated object was found valid (systems C14).
    NeighbourValidated,
    /// A neighbour of a validated object was replaced by the origin's current response.
    NeighbourReplaced,
    /// A neighbour of a validated object was left unchanged: no response, an error, or a response
    /// that cannot be stored.
    NeighbourUnchanged,
    /// A validated or replaced neighbour was requested for the first time since, while still fresh.
    NeighbourUsed,
    /// A response was compressed.
    Compressed,
    /// Bytes of bodies before they were compressed.
    BytesBeforeCompression,
    /// Bytes of bodies after they were compressed.
    BytesAfterCompression,
    /// A response was sent as it is, because too many others were being compressed.
    CompressionSkipped,
    /// A request waited in the queue of a limit.
    RequestQueued,
    /// A request was over a limit that is in a dry run.
    LimitDryRun,
    /// The wall clock was set, or the machine was suspended.
    ClockSet,
}

impl Event {
    pub(crate) const COUNT: usize = Event::ClockSet as usize + 1;
}
