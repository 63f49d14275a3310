//! The client of a route: one connection, over which one request follows the answer to the one
//! before.

use std::net::SocketAddr;
use std::sync::Arc;

use h2::client::SendRequest;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use testbed::browser;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::routes::{Question, Route};
use crate::bench::exchange::Connection;
use crate::bench::scenario;

/// The host that is asked for.
const HOST: &str = "bench.test";

/// Bytes that are asked for with `Range`.
const RANGE: usize = 100;

/// Where and how clients ask.
pub enum Way {
    /// In HTTP/1.1.
    Plain(SocketAddr),
    /// In HTTP/1.1 over TLS.
    Tls(SocketAddr, Arc<ClientConfig>),
    /// In HTTP/2 over TLS.
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
    /// Connects; bodies are of at most `body_max` bytes.
    ///
    /// # Errors
    ///
    /// When nothing listens there, or TLS or HTTP/2 is not spoken.
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

    /// Asks for an object and checks the answer; its outcome is the route's if `counted`. Returns
    /// whether the outcome is the route's.
    ///
    /// # Errors
    ///
    /// When the connection breaks, or the answer is a wrong one.
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

    /// Sends a request, and returns the status with the fields of the answer, and its body.
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

/// Returns the fields of a request, without those of the question where nothing is counted.
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

/// Sends a request in HTTP/2; see [`Client::exchange`].
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
