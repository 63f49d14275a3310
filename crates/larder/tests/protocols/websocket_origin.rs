//! An origin that changes protocols: WebSocket in HTTP/1.1, and in HTTP/2 as an extended CONNECT.
//! The path selects its behaviour.
//!
//! | path | response |
//! |---|---|
//! | `/chat` | changes to WebSocket: messages come back in capitals |
//! | `/raw` | changes to the requested protocol: bytes come back in capitals, then `end` |
//! | `/early` | changes, and sends `early` at once |
//! | `/reset` | changes, and resets the connection at the first byte |
//! | `/426`, `/200`, `/404` | that status and a body |
//! | `/other` | changes to something else |
//! | `/unsaid` | changes, without naming the protocol |
//! | `/wrong` | changes, and does not understand WebSocket |

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{Request, Response};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use rustls::ServerConfig;
use testkit::authority::server_of_file;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// The protocols that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP/1.1 without TLS.
    Plain,
    /// Only HTTP/1.1, over TLS.
    One,
    /// HTTP/2 or HTTP/1.1, as the other side chooses; no extended CONNECT.
    Both,
    /// HTTP/2 or HTTP/1.1, with extended CONNECT.
    Two,
}

/// The running origin.
pub struct Origin {
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    /// Starts an origin, which lives as long as the test process. `chain`: certificate and key, for
    /// TLS.
    pub fn start(speaks: Speaks, chain: Option<&Path>) -> Origin {
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let tls = (speaks != Speaks::Plain).then(|| TlsAcceptor::from(config(speaks, chain)));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let log = heads.clone();
        thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, tls.clone(), speaks, log.clone()));
                }
            });
        });
        Origin { address, heads }
    }

    /// Returns the heads of the requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn config(speaks: Speaks, chain: Option<&Path>) -> Arc<ServerConfig> {
    let alpn: &[&str] = if speaks == Speaks::One { &["http/1.1"] } else { &["h2", "http/1.1"] };
    server_of_file(chain.unwrap(), alpn, None)
}

async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    speaks: Speaks,
    log: Arc<Mutex<Vec<String>>>,
) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return drop(one(stream, log, TcpStream::set_zero_linger).await);
    };
    let Ok(stream) = tls.accept(stream).await else { return };
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return drop(one(stream, log, |_| Ok(())).await);
    }
    let mut builder = h2::server::Builder::new();
    if speaks == Speaks::Two {
        builder.enable_connect_protocol();
    }
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    while let Some(Ok((request, reply))) = connection.accept().await {
        let protocol = request.extensions().get::<h2::ext::Protocol>();
        let protocol = protocol.map_or("", |protocol| protocol.as_str());
        let (method, path) = (request.method(), request.uri().path());
        let mut head = format!("{method} {path} HTTP/2 {protocol}\r\n");
        for (name, value) in request.headers() {
            head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
        }
        log.lock().unwrap().push(head);
        tokio::spawn(two(request, reply));
    }
}

/// Serves HTTP/1.1.
async fn one<T: AsyncRead + AsyncWrite + Unpin>(
    mut stream: T,
    log: Arc<Mutex<Vec<String>>>,
    reset: impl Fn(&T) -> io::Result<()>,
) -> io::Result<()> {
    loop {
        let head = read_head(&mut stream).await?;
        log.lock().unwrap().push(head.clone());
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let asked = field(&head, "upgrade").unwrap_or_default();
        if let Ok(status) = path[1..].parse::<u16>() {
            let answer = format!("HTTP/1.1 {status} Said\r\nContent-Length: 4\r\n\r\nsaid");
            stream.write_all(answer.as_bytes()).await?;
            continue;
        }
        if asked.is_empty() {
            stream.write_all(b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n").await?;
            continue;
        }
        let key = field(&head, "sec-websocket-key").unwrap_or_default();
        let upgrade = match path.as_str() {
            "/other" => "Upgrade: something/1\r\n".to_owned(),
            "/unsaid" => String::new(),
            _ => format!("Upgrade: {asked}\r\n"),
        };
        let accept = if path == "/wrong" { "bm8=".to_owned() } else { accept(&key) };
        let mut answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{upgrade}\
             Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: caps\r\n\
             Set-Cookie: way=1\r\n\r\n"
        );
        if path == "/early" {
            answer.push_str("early");
        }
        stream.write_all(answer.as_bytes()).await?;
        if path == "/reset" {
            stream.read_exact(&mut [0]).await?;
            return reset(&stream);
        }
        return if path == "/chat" { chat(stream).await } else { raw(stream).await };
    }
}

/// Serves one HTTP/2 stream.
async fn two(request: Request<RecvStream>, mut reply: SendResponse<Bytes>) {
    let path = request.uri().path().to_owned();
    let is_connect = request.method() == "CONNECT";
    let status = match path[1..].parse::<u16>() {
        Ok(status) => status,
        Err(_) if is_connect => 200,
        Err(_) => 400,
    };
    let head = Response::builder().status(status).header("sec-websocket-protocol", "caps");
    let head = head.header("set-cookie", "way=1").body(()).unwrap();
    let mut sink = reply.send_response(head, false).unwrap();
    if !(is_connect && status == 200) {
        let _ = sink.send_data("said".into(), true);
        return;
    }
    let (near, mut far) = tokio::io::duplex(1 << 16);
    if path == "/early" {
        far.write_all(b"early").await.unwrap();
    }
    if path == "/reset" {
        let mut body = request.into_body();
        let _ = body.data().await;
        return sink.send_reset(h2::Reason::INTERNAL_ERROR);
    }
    let speaking = async {
        // The other side of the pipe sees the end.
        let _ = if path == "/chat" { chat(far).await } else { raw(far).await };
    };
    tokio::join!(speaking, carry(near, request.into_body(), sink));
}

/// Moves bytes between a stream and a pipe.
async fn carry(pipe: DuplexStream, mut source: RecvStream, mut sink: SendStream<Bytes>) {
    let (mut read, mut write) = tokio::io::split(pipe);
    let up = async {
        while let Some(Ok(data)) = source.data().await {
            let _ = source.flow_control().release_capacity(data.len());
            if write.write_all(&data).await.is_err() {
                break;
            }
        }
        let _ = write.shutdown().await;
    };
    let down = async {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = read.read(&mut buffer).await {
            let _ = sink.send_data(Bytes::copy_from_slice(&buffer[..n]), false);
        }
        let _ = sink.send_data(Bytes::new(), true);
    };
    tokio::join!(up, down);
}

/// Sends each message back in capitals, and responds to a close with a close.
async fn chat(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    loop {
        let (kind, text) = read_frame(&mut stream).await?;
        stream.write_all(&frame(kind, &text.to_ascii_uppercase(), None)).await?;
        if kind == CLOSE {
            return stream.shutdown().await;
        }
    }
}

/// Sends everything back in capitals, followed by `end`.
async fn raw(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let n = stream.read(&mut buffer).await?;
        if n == 0 {
            stream.write_all(b"end").await?;
            return stream.shutdown().await;
        }
        stream.write_all(&buffer[..n].to_ascii_uppercase()).await?;
    }
}

pub const TEXT: u8 = 1;
pub const CLOSE: u8 = 8;

/// Encodes a frame with a short payload (RFC 6455, 5.2), masked if `mask` is given.
pub fn frame(kind: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    assert!(payload.len() < 126);
    let mut bytes = vec![0x80 | kind, payload.len() as u8 | if mask.is_some() { 0x80 } else { 0 }];
    bytes.extend(mask.unwrap_or_default().iter().take(if mask.is_some() { 4 } else { 0 }));
    let mask = mask.unwrap_or_default();
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// Reads such a frame: its kind and payload.
pub async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).await?;
    let mut mask = [0; 4];
    if head[1] & 0x80 != 0 {
        stream.read_exact(&mut mask).await?;
    }
    let mut payload = vec![0; usize::from(head[1] & 0x7f)];
    stream.read_exact(&mut payload).await?;
    for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    Ok((head[0] & 0xf, payload))
}

/// Reads a head, and no byte after it.
pub async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8(head).unwrap())
}

/// Returns the value of a field in a head.
pub fn field(head: &str, name: &str) -> Option<String> {
    head.lines().skip(1).find_map(|line| {
        let (field, value) = line.split_once(':')?;
        field.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

/// Returns the server's accept value for a key (RFC 6455, 4.2.2).
pub fn accept(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}
