//! The client of a route: one connection with one request at a time, and nothing in a request
//! beside what the route says, because every byte counts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use testkit::browser;

use super::routes::{Question, Route};
use crate::client::{Checking, Expectation, Head, Incoming, Listener, Progress, Socket};
use crate::object::{Condition, Object};

/// The requested host.
const HOST: &str = "bench.test";

/// Bytes that are requested with `Range`.
const RANGE: u64 = 100;

/// Timeout for a response.
const PATIENCE: Duration = Duration::from_secs(60);

/// The address and protocol of a client.
pub enum Way {
    /// HTTP/1.1.
    Plain(SocketAddr),
    /// HTTP/1.1 over TLS.
    Tls(SocketAddr, Arc<ClientConfig>),
    /// HTTP/2 over TLS.
    Http2(SocketAddr, Arc<ClientConfig>),
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// An open connection.
pub enum Client {
    /// HTTP/1.1, with or without TLS.
    Http1(Box<dyn Stream>, Vec<u8>),
    /// HTTP/2.
    Http2(Box<Http2>),
}

/// The bytes of a connection.
pub trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

impl Client {
    /// Connects.
    ///
    /// # Errors
    ///
    /// When no server listens there, or it does not speak TLS or HTTP/2.
    pub fn open(way: &Way) -> Result<Client, String> {
        let http1 = |stream| Client::Http1(stream, vec![0; 256 << 10]);
        match way {
            Way::Plain(to) => Ok(http1(Box::new(connect(*to)?))),
            Way::Tls(to, config) => Ok(http1(Box::new(handshake(*to, config)?))),
            Way::Http2(to, config) => {
                let stream = handshake(*to, config)?;
                Http2::open(stream).map(|client| Client::Http2(Box::new(client)))
            }
        }
    }

    /// Requests an object and checks the response; if `counted`, it must come from where the route
    /// says. Returns whether it does.
    ///
    /// # Errors
    ///
    /// When the connection breaks, or the response is wrong.
    pub fn ask(&mut self, route: &Route, id: u64, counted: bool) -> Result<bool, String> {
        let path = route.path(id);
        let object = Object { id, size: route.size as u64, ..Object::default() };
        let (status, expected) = match route.question {
            Question::Changed if counted => {
                (304, Expectation { condition: Condition::Since304, ..Expectation::default() })
            }
            Question::Range if counted => {
                (206, Expectation { range: Some((0, RANGE)), ..Expectation::default() })
            }
            _ => (200, Expectation::default()),
        };
        let checking = Checking::new(Expectation { object, has_no_origin: true, ..expected });
        let fields = fields(route.question, id, counted);
        let checking = match self {
            Client::Http1(stream, buffer) => exchange(stream, buffer, &path, &fields, checking),
            Client::Http2(client) => client.exchange(&path, &fields, checking),
        };
        let verdict = checking.map_err(|why| format!("{path}: {why}"))?.done();
        if let Some(failure) = verdict.failure {
            return Err(failure.to_string());
        }
        if verdict.status != status {
            return Err(format!("{path}: expected {status}, got {}", verdict.status));
        }
        let is_expected = route.from.is_none_or(|from| from == verdict.served_from);
        match counted && !is_expected {
            true => Err(format!("{path}: from {:?}, not {:?}", verdict.served_from, route.from)),
            false => Ok(is_expected),
        }
    }
}

/// Returns the fields of a request; conditions and ranges only if it is `counted`.
fn fields(question: Question, id: u64, counted: bool) -> Vec<(&'static str, String)> {
    match question {
        Question::Encoded => vec![("accept-encoding", "gzip, deflate, br, zstd".into())],
        Question::Changed if counted => vec![("if-none-match", format!("\"{id}\""))],
        Question::Range if counted => vec![("range", format!("bytes=0-{}", RANGE - 1))],
        Question::Browser => {
            browser::FIELDS.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
        }
        Question::Whole | Question::Changed | Question::Range => Vec::new(),
    }
}

fn connect(to: SocketAddr) -> Result<TcpStream, String> {
    let fail = |e: std::io::Error| format!("the client of {to}: {e}");
    let stream = TcpStream::connect(to).map_err(fail)?;
    stream.set_nodelay(true).map_err(fail)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
    Ok(stream)
}

fn handshake(to: SocketAddr, config: &Arc<ClientConfig>) -> Result<Tls, String> {
    let mut stream = connect(to)?;
    let name = ServerName::try_from(HOST).map_err(|e| format!("{HOST}: {e}"))?;
    let connection = ClientConnection::new(Arc::clone(config), name);
    let mut connection = connection.map_err(|e| format!("TLS: {e}"))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).map_err(|e| format!("TLS with {to}: {e}"))?;
    }
    Ok(StreamOwned::new(connection, stream))
}

/// Sends a request over HTTP/1.1, and passes the response to `checking`.
fn exchange(
    stream: &mut Box<dyn Stream>,
    buffer: &mut [u8],
    path: &str,
    fields: &[(&str, String)],
    mut checking: Checking,
) -> Result<Checking, String> {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\n{lines}\r\n");
    stream.write_all(request.as_bytes()).map_err(|e| e.to_string())?;
    stream.flush().map_err(|e| e.to_string())?;
    let mut incoming = Incoming::default();
    loop {
        let len = stream.read(buffer).map_err(|e| e.to_string())?;
        if len == 0 {
            return Err("the connection was closed".into());
        }
        match incoming.take(&buffer[..len], &mut checking)? {
            Progress::Done { .. } => return Ok(checking),
            Progress::More => (),
        }
    }
}

/// A connection of HTTP/2 whose futures are polled here, without a runtime.
pub struct Http2 {
    client: SendRequest<Bytes>,
    connection: Connection<Socket<Tls>, Bytes>,
    socket: TcpStream,
}

impl Http2 {
    fn open(stream: Tls) -> Result<Http2, String> {
        let socket = stream.sock.try_clone().map_err(|e| e.to_string())?;
        socket.set_nonblocking(true).map_err(|e| e.to_string())?;
        let mut opening = pin!(h2::client::handshake(Socket(stream)));
        let made = wait(&socket, |context| opening.as_mut().poll(context))?;
        let (client, connection) = made.map_err(|e| format!("HTTP/2: {e}"))?;
        Ok(Http2 { client, connection, socket })
    }

    /// Sends a request, and passes the response to `checking`.
    fn exchange(
        &mut self,
        path: &str,
        fields: &[(&str, String)],
        mut checking: Checking,
    ) -> Result<Checking, String> {
        let fail = |e: h2::Error| e.to_string();
        let mut request = http::Request::get(format!("https://{HOST}{path}"));
        for (name, value) in fields {
            request = request.header(*name, value);
        }
        let request = request.body(()).map_err(|e| e.to_string())?;
        self.drive(|client, context| client.poll_ready(context))?.map_err(fail)?;
        let (response, _) = self.client.send_request(request, true).map_err(fail)?;
        let mut response = pin!(response);
        let response = self.drive(|_, context| response.as_mut().poll(context))?.map_err(fail)?;
        let mut head = Head { status: response.status().as_u16(), ..Head::default() };
        for (name, value) in response.headers() {
            head.note(name.as_str(), value.as_bytes())?;
        }
        checking.head(&head);
        let mut body = response.into_body();
        while let Some(bytes) = self.drive(|_, context| body.poll_data(context))? {
            let bytes = bytes.map_err(fail)?;
            checking.body(&bytes);
            body.flow_control().release_capacity(bytes.len()).map_err(fail)?;
        }
        Ok(checking)
    }

    /// Polls `step`, and the connection whenever that cannot continue.
    fn drive<T>(
        &mut self,
        mut step: impl FnMut(&mut SendRequest<Bytes>, &mut Context) -> Poll<T>,
    ) -> Result<T, String> {
        let Http2 { client, connection, socket } = self;
        let mut ended = None;
        let stepped = wait(socket, |context| {
            if let Poll::Ready(value) = step(client, context) {
                return Poll::Ready(Some(value));
            }
            if let Poll::Ready(end) = pin!(&mut *connection).poll(context) {
                ended = end.err();
                return Poll::Ready(None);
            }
            step(client, context).map(Some)
        })?;
        stepped.ok_or_else(|| format!("the connection was closed: {ended:?}"))
    }
}

/// Polls `step` whenever the socket is readable until it is ready.
fn wait<T>(socket: &TcpStream, mut step: impl FnMut(&mut Context) -> Poll<T>) -> Result<T, String> {
    let mut context = Context::from_waker(Waker::noop());
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    loop {
        if let Poll::Ready(value) = step(&mut context) {
            return Ok(value);
        }
        let mut sockets = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut sockets, Some(&patience)) {
            Ok(0) => return Err("no response in time".into()),
            Ok(_) => (),
            Err(e) => return Err(format!("the client's socket: {e}")),
        }
    }
}
