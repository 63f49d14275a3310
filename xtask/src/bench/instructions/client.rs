//! The client of a route: one connection with one request at a time.

use std::net::SocketAddr;
use std::sync::Arc;

use h2::client::SendRequest;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use testkit::browser;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::routes::{Question, Route};
use crate::bench::exchange::Connection;
use crate::bench::scenario;

/// The requested host.
const HOST: &str = "bench.test";

/// Bytes that are requested with `Range`.
const RANGE: usize = 100;

/// The address and protocol of a client.
pub enum Way {
    /// HTTP/1.1.
    Plain(SocketAddr),
    /// HTTP/1.1 over TLS.
    Tls(SocketAddr, Arc<ClientConfig>),
    /// HTTP/2 over TLS.
    Http2(SocketAddr, Arc<ClientConfig>),
}

/// An open connection.
pub enum Client {
    /// HTTP/1.1.
    Plain(Connection<TcpStream>),
    /// HTTP/1.1 over TLS.
    Tls(Box<Connection<TlsStream<TcpStream>>>),
    /// HTTP/2.
    Http2(SendRequest<bytes::Bytes>),
}

impl Client {
    /// Connects; bodies have at most `body_max` bytes.
    ///
    /// # Errors
    ///
    /// When no server listens there, or it does not speak TLS or HTTP/2.
    pub async fn open(way: &Way, body_max: usize) -> Result<Client, String> {
        match way {
            Way::Plain(to) => Ok(Client::Plain(Connection::open(*to, body_max).await?)),
            Way::Tls(to, config) => {
                let stream = handshake(*to, config).await?;
                Ok(Client::Tls(Box::new(Connection::over(stream, *to, body_max))))
            }
            Way::Http2(to, config) => {
                let stream = handshake(*to, config).await?;
                let opened = h2::client::handshake(stream).await;
                let (client, connection) = opened.map_err(|e| format!("HTTP/2: {e}"))?;
                tokio::spawn(connection);
                Ok(Client::Http2(client))
            }
        }
    }

    /// Requests an object and checks the response; if `counted`, its outcome must be the route's.
    /// Returns whether the outcome is the route's.
    ///
    /// # Errors
    ///
    /// When the connection breaks, or the response is wrong.
    pub async fn ask(&mut self, route: &Route, object: u64, counted: bool) -> Result<bool, String> {
        let path = route.path(object);
        let (status, size) = match route.question {
            Question::Changed if counted => (304, 0),
            Question::Range if counted => (206, RANGE),
            _ => (200, route.size),
        };
        let fields = fields(route.question, object, counted);
        let (head, body) = self.exchange(&path, &fields).await?;
        if !scenario::is_body(object, size, &body) {
            return Err(format!("{path}: a wrong body of {} bytes: {head}", body.len()));
        }
        if !head.starts_with(&format!("{status} ")) {
            return Err(format!("{path}: expected {status}: {head}"));
        }
        let outcome = route.outcome.is_none_or(|outcome| {
            let line = format!("detail={outcome}");
            head.lines().any(|field| field.ends_with(&line))
        });
        match counted && !outcome {
            true => Err(format!("{path}: not a {:?}: {head}", route.outcome)),
            false => Ok(outcome),
        }
    }

    /// Sends a request. Returns the status line with the fields of the response, and its body.
    async fn exchange(
        &mut self,
        path: &str,
        fields: &[(&str, String)],
    ) -> Result<(String, Vec<u8>), String> {
        let lines: String =
            fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (head, body) = match self {
            Client::Plain(connection) => connection.ask(path, &lines).await?,
            Client::Tls(connection) => connection.ask(path, &lines).await?,
            Client::Http2(client) => return exchange(client, path, fields).await,
        };
        let head = String::from_utf8_lossy(head);
        let head = head.strip_prefix("HTTP/1.1 ").ok_or("an answer in another protocol")?;
        Ok((head.to_owned(), body.to_vec()))
    }
}

/// Returns the fields of a request; conditions and ranges only if it is `counted`.
fn fields(question: Question, object: u64, counted: bool) -> Vec<(&'static str, String)> {
    match question {
        Question::Encoded => vec![("accept-encoding", "gzip, deflate, br, zstd".into())],
        Question::Changed if counted => vec![("if-none-match", format!("\"{object}\""))],
        Question::Range if counted => vec![("range", format!("bytes=0-{}", RANGE - 1))],
        Question::Browser => {
            browser::FIELDS.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
        }
        Question::Whole | Question::Changed | Question::Range => Vec::new(),
    }
}

async fn handshake(
    to: SocketAddr,
    config: &Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, String> {
    let fail = |e: std::io::Error| format!("the load generator at {to}: {e}");
    let stream = TcpStream::connect(to).await.map_err(fail)?;
    stream.set_nodelay(true).map_err(fail)?;
    let name = ServerName::try_from(HOST).map_err(|e| format!("{HOST}: {e}"))?;
    TlsConnector::from(config.clone()).connect(name, stream).await.map_err(fail)
}

/// Sends a request over HTTP/2; see [`Client::exchange`].
async fn exchange(
    client: &mut SendRequest<bytes::Bytes>,
    path: &str,
    fields: &[(&str, String)],
) -> Result<(String, Vec<u8>), String> {
    let fail = |e: h2::Error| format!("{path}: {e}");
    let mut request = http::Request::get(format!("https://{HOST}{path}"));
    for (name, value) in fields {
        request = request.header(*name, value);
    }
    let request = request.body(()).map_err(|e| format!("{path}: {e}"))?;
    std::future::poll_fn(|context| client.poll_ready(context)).await.map_err(fail)?;
    let (response, _) = client.send_request(request, true).map_err(fail)?;
    let (head, mut stream) = response.await.map_err(fail)?.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data.map_err(fail)?;
        body.extend_from_slice(&data);
        stream.flow_control().release_capacity(data.len()).map_err(fail)?;
    }
    let lines = head.headers.iter();
    let lines: String = lines
        .map(|(name, value)| format!("\r\n{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    Ok((format!("{} {lines}", head.status.as_u16()), body))
}
