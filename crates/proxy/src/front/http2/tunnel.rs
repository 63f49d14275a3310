//! A stream of HTTP/2 as a plain one of bytes: what a CONNECT has made of it (RFC 9113, 8.5),
//! towards a client or a server.
