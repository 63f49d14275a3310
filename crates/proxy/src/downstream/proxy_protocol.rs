//! PROXY protocol header, versions 1 and 2, in which a load balancer states the client of a
//! connection. The crate `ppp` parses the bytes; this module decides which values to trust.
//!
//! The header is expected only on listeners configured for it, and only from trusted peers: any
//! other peer could forge its address.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use ppp::{HeaderResult, PartialResult, v1, v2};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum length of a header in bytes. In version 2, two Unix addresses take 232; the rest is for
/// TLV fields.
const LONGEST: usize = 4096;

/// Maximum length of a version 1 line.
const LONGEST_V1: usize = 107;

const SIGNATURE_V1: &[u8] = b"PROXY ";
const SIGNATURE_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Type of the TLV field about TLS, and the bit in it that is set if the client spoke TLS.
const TLS_FIELD: u8 = 0x20;
const TLS_CLIENT: u8 = 0x01;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProxyHeader {
    /// Client address, if it is not the peer's own.
    pub client: Option<SocketAddr>,
    /// True if the client spoke TLS to the load balancer.
    pub is_tls: bool,
}

#[derive(Debug)]
pub(crate) enum Refusal {
    Malformed,
    Ended,
    Io(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed => f.write_str("expected a PROXY protocol header"),
            Refusal::Ended => f.write_str("the connection ended within its PROXY protocol header"),
            Refusal::Io(error) => error.fmt(f),
        }
    }
}

/// Reads the header from the beginning of a connection. Also returns the bytes read after it.
pub(crate) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<(ProxyHeader, Bytes), Refusal> {
    let mut buffer = Vec::with_capacity(256);
    loop {
        if let Some((told, len)) = parse(&buffer)? {
            return Ok((told, Bytes::from(buffer.split_off(len))));
        }
        if buffer.len() >= LONGEST {
            return Err(Refusal::Malformed);
        }
        let room = (LONGEST - buffer.len()) as u64;
        match (&mut *stream).take(room).read_buf(&mut buffer).await {
            Ok(0) => return Err(Refusal::Ended),
            Ok(_) => {}
            Err(error) => return Err(Refusal::Io(error)),
        }
    }
}

/// Parses a header. Returns it and its length, or `None` if more bytes are needed.
fn parse(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, Refusal> {
    let begins = |signature: &[u8]| {
        let n = bytes.len().min(signature.len());
        bytes[..n] == signature[..n]
    };
    if !begins(SIGNATURE_V1) && !begins(SIGNATURE_V2) {
        return Err(Refusal::Malformed);
    }
    // The crate rejects an incomplete version 1 line as invalid, so it is given complete lines
    // only.
    if bytes.starts_with(&SIGNATURE_V1[..1]) && !bytes.windows(2).any(|pair| pair == b"\r\n") {
        return if bytes.len() < LONGEST_V1 { Ok(None) } else { Err(Refusal::Malformed) };
    }
    match HeaderResult::parse(bytes) {
        HeaderResult::V1(Ok(header)) => {
            let client = match header.addresses {
                v1::Addresses::Unknown => None,
                v1::Addresses::Tcp4(a) => Some((IpAddr::V4(a.source_address), a.source_port)),
                v1::Addresses::Tcp6(a) => Some((IpAddr::V6(a.source_address), a.source_port)),
            };
            let told = ProxyHeader { client: client.map(SocketAddr::from), is_tls: false };
            Ok(Some((told, header.header.len())))
        }
        HeaderResult::V2(Ok(header)) => Ok(Some((header_v2(&header), header.len()))),
        // A version 1 line is complete here, so missing parts will not follow.
        result @ HeaderResult::V2(_) if result.is_incomplete() => Ok(None),
        _ => Err(Refusal::Malformed),
    }
}

fn header_v2(header: &v2::Header<'_>) -> ProxyHeader {
    // The connection is the load balancer's own, such as a health check.
    if header.command == v2::Command::Local {
        return ProxyHeader { client: None, is_tls: false };
    }
    let client = match header.addresses {
        v2::Addresses::IPv4(a) => Some((IpAddr::V4(a.source_address), a.source_port)),
        v2::Addresses::IPv6(a) => Some((IpAddr::V6(a.source_address), a.source_port)),
        v2::Addresses::Unspecified | v2::Addresses::Unix(_) => None,
    };
    let is_tls = header.tlvs().flatten().any(|field| {
        field.kind == TLS_FIELD && field.value.first().is_some_and(|bits| bits & TLS_CLIENT != 0)
    });
    ProxyHeader { client: client.map(SocketAddr::from), is_tls }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = SIGNATURE_V2.to_vec();
        bytes.extend([0x20 | command, family]);
        bytes.extend((rest.len() as u16).to_be_bytes());
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn an_incomplete_line_is_refused_at_its_end() {
        assert!(matches!(parse(b"PROXY TCP4 nonsense"), Ok(None)));
        for line in ["PROXY TCP4 nonsense\r\n", "PROXY TCP4 192.0.2.7\r\n", "PROXY \r\n"] {
            assert!(matches!(parse(line.as_bytes()), Err(Refusal::Malformed)), "{line}");
        }
    }

    /// Parses a header, and checks that every way to split its bytes in two gives the same result.
    fn said(bytes: &[u8]) -> Result<(ProxyHeader, Bytes), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let whole = runtime.block_on(read(&mut &bytes[..])).map_err(|why| why.to_string());
        for cut in 0..=bytes.len() {
            let (before, after) = bytes.split_at(cut);
            let mut parts = before.chain(after);
            let again = runtime.block_on(async {
                let (told, mut rest) = read(&mut parts).await?;
                let mut more = Vec::new();
                parts.read_to_end(&mut more).await.map_err(Refusal::Io)?;
                more.splice(..0, rest.split_off(0));
                Ok((told, Bytes::from(more)))
            });
            assert_eq!(again.map_err(|why: Refusal| why.to_string()), whole, "cut at {cut}");
        }
        whole
    }

    fn client(text: &str) -> ProxyHeader {
        ProxyHeader { client: Some(text.parse().unwrap()), is_tls: false }
    }

    const NO_CLIENT: ProxyHeader = ProxyHeader { client: None, is_tls: false };

    #[test]
    fn version_1_headers_are_parsed() {
        let (told, rest) = said(b"PROXY TCP4 192.0.2.1 192.0.2.2 5 80\r\nGET /").unwrap();
        assert_eq!((told, &rest[..]), (client("192.0.2.1:5"), &b"GET /"[..]));
        let (told, _) = said(b"PROXY TCP6 2001:db8::1 2001:db8::2 5 80\r\nGET /").unwrap();
        assert_eq!(told, client("[2001:db8::1]:5"));
        let (told, rest) = said(b"PROXY UNKNOWN\r\n").unwrap();
        assert_eq!((told, rest.len()), (NO_CLIENT, 0));
    }

    #[test]
    fn version_2_headers_are_parsed() {
        let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 0, 5, 0, 80];
        let mut bytes = v2(1, 0x11, &v4);
        bytes.extend(b"GET /");
        let (told, rest) = said(&bytes).unwrap();
        assert_eq!((told, &rest[..]), (client("192.0.2.1:5"), &b"GET /"[..]));
        let mut v6 = [0u8; 36];
        v6[..2].copy_from_slice(&[0x20, 0x01]);
        v6[15] = 9;
        v6[33] = 7;
        assert_eq!(said(&v2(1, 0x21, &v6)).unwrap().0, client("[2001::9]:7"));
        // A health check of the load balancer, and a client whose address it does not state.
        assert_eq!(said(&v2(0, 0x11, &v4)).unwrap().0, NO_CLIENT);
        assert_eq!(said(&v2(1, 0x00, &[])).unwrap().0, NO_CLIENT);
        assert_eq!(said(&v2(1, 0x31, &[0; 216])).unwrap().0, NO_CLIENT);
    }

    #[test]
    fn the_tls_field_marks_a_client_that_spoke_tls() {
        let field = |bits: u8| {
            let mut rest = vec![192, 0, 2, 1, 192, 0, 2, 2, 0, 5, 0, 80];
            rest.extend([TLS_FIELD, 0, 5, bits, 0, 0, 0, 0]);
            said(&v2(1, 0x11, &rest)).unwrap().0.is_tls
        };
        assert!(field(1));
        assert!(!field(2));
    }

    #[test]
    fn other_bytes_are_refused() {
        let bad: [&[u8]; 9] = [
            b"GET / HTTP/1.1\r\n\r\n",
            b"proxy TCP4 192.0.2.1 192.0.2.2 5 80\r\n",
            b"PROXY TCP4 192.0.2.1 5 80\r\n",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 5 99999\r\n",
            b"PROXY TCP4 2001:db8::1 2001:db8::2 5 80\r\n",
            b"PROXY TCP5 192.0.2.1 192.0.2.2 5 80\r\n",
            b"\x16\x03\x01",
            &v2(5, 0x11, &[0; 12]),
            &v2(1, 0x11, &[0; 4]),
        ];
        for bytes in bad {
            assert!(said(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        let endless = [SIGNATURE_V1, &[b'x'; 8192]].concat();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let why = runtime.block_on(read(&mut &endless[..])).unwrap_err();
        assert!(matches!(why, Refusal::Malformed), "{why}");
        let endless = v2(1, 0x11, &[0; 60_000]);
        let why = runtime.block_on(read(&mut &endless[..])).unwrap_err();
        assert!(matches!(why, Refusal::Malformed), "{why}");
        let why = runtime.block_on(read(&mut &b"PROXY TCP4 192.0.2.1"[..])).unwrap_err();
        assert!(matches!(why, Refusal::Ended), "{why}");
    }
}
