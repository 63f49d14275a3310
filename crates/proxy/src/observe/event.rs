//! The events that are counted.

/// An event that is counted, besides requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client's connection was accepted.
    ConnectionOpened,
    /// A client's connection ended.
    ConnectionClosed,
    /// A client's idle connection was closed to make room for another one.
    ConnectionMadeWay,
    /// A client's connection was closed because its address had as many as it may.
    AddressCrowded,
    /// Bytes received from clients, heads and tunnels included.
    BytesReceived,
    /// Bytes sent to clients, heads and tunnels included.
    BytesSent,
    /// A fetch for the cache began.
    FillBegun,
    /// A fetch for the cache ended with its answer stored.
    FillStored,
    /// A fetch for the cache ended with a 304: what is stored is good.
    FillValidated,
    /// A fetch for the cache ended whole, with its answer not stored.
    FillUnstored,
    /// A fetch for the cache ended early.
    FillAborted,
    /// A request joined a running fetch.
    FollowerJoined,
    /// A connection to an upstream was opened.
    UpstreamConnected,
    /// A request was sent to an upstream on a connection that was open already.
    UpstreamReused,
    /// A request was sent again because a connection kept open had died.
    UpstreamRetried,
    /// A connection to an upstream was closed because bytes came behind the end of an answer.
    UpstreamOverrun,
    /// A TLS handshake with a client succeeded.
    TlsHandshake,
    /// … and resumed an earlier session.
    TlsResumed,
    /// A TLS handshake with a client failed, or took too long.
    TlsFailed,
    /// A connection was refused for want of a good PROXY protocol header from a trusted peer.
    ProxyHeaderRefused,
    /// A connection speaks HTTP/1.
    Http1Connection,
    /// A connection speaks HTTP/2.
    Http2Connection,
    /// A tunnel was opened.
    TunnelOpened,
    /// A tunnel ended.
    TunnelClosed,
    /// An idle tunnel ended to make way for another one.
    TunnelMadeWay,
    /// A client's connection, or a stream of it, changed its protocol: a tunnel follows.
    Upgraded,
    /// A request for something that is not stored (systems C12).
    CacheMiss,
    /// What is stored was in memory, and may be served.
    MemoryHit,
    /// What is stored was in memory, and must be validated.
    MemoryStaleHit,
    /// What is stored was read from the device, and may be served.
    DiskHit,
    /// What is stored was read from the device, and must be validated.
    DiskStaleHit,
    /// A conditional request for something that could be stored, answered with 304.
    ConditionalHit,
    /// Such a request, answered otherwise.
    ConditionalMiss,
    /// A neighbour of a validated object was found good (systems C14).
    NeighbourValidated,
    /// … was replaced by what the origin has now.
    NeighbourReplaced,
    /// … stayed as it was: no answer, an error, or nothing that could be stored.
    NeighbourLeft,
    /// Such a neighbour was asked for, for the first time since, while it was fresh.
    NeighbourUsed,
    /// The wall clock was set, or the machine was asleep.
    ClockSet,
}

impl Event {
    pub(crate) const COUNT: usize = Event::ClockSet as usize + 1;
}
