//! An origin server that records its requests. Its responses are written in the request URLs
//! ([`Origin::start`], see `url_response`), or sent by a script of the test
//! ([`Origin::scripted`]).
//!
//! [`serve_connection`] is the same server on an asynchronous stream, also in virtual time.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use crate::io::{PATIENCE, fill, read_more};
use crate::listener::serve_each_of;
use crate::message::{Body, Head};

mod url_response;

/// A request as received.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The request line and fields.
    pub head: Head,
    /// The method.
    pub method: String,
    /// The target of the request line: path and query, or an absolute URL.
    pub path: String,
    /// The body, without transfer coding.
    pub body: Vec<u8>,
    /// All bytes of the request.
    pub bytes: Vec<u8>,
    /// Number of this request over all connections, from 0.
    pub number: usize,
    /// Number of this request on its connection, from 0.
    pub on_connection: usize,
    /// Source port of its connection.
    pub from: u16,
}

impl Received {
    fn new(head: Head) -> Received {
        let mut words = head.start_line.split(' ').map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        Received { head, method, path, ..Received::default() }
    }

    /// Returns the first value of a field.
    pub fn field(&self, name: &str) -> Option<String> {
        self.head.get(name).map(str::to_owned)
    }
}

/// A request that is being received.
#[derive(Default)]
struct Incoming {
    buffer: BytesMut,
    /// Bytes read, from the beginning of the request on.
    bytes: Vec<u8>,
    message: Option<(Received, Body)>,
}

impl Incoming {
    /// Returns the request once it is complete.
    fn take(&mut self) -> io::Result<Option<Received>> {
        if self.message.is_none() {
            let Some(head) = Head::take(&mut self.buffer)? else { return Ok(None) };
            let body = Body::of_request(&head);
            self.message = Some((Received::new(head), body));
        }
        let Some((request, body)) = &mut self.message else { return Ok(None) };
        let content = &mut request.body;
        if body.take(&mut self.buffer, |bytes| content.extend_from_slice(bytes))?.is_none() {
            return Ok(None);
        }
        let rest = self.bytes.split_off(self.bytes.len() - self.buffer.len());
        let bytes = std::mem::replace(&mut self.bytes, rest);
        Ok(self.message.take().map(|(request, _)| Received { bytes, ..request }))
    }

    /// Reads more; returns false at the end of the connection.
    fn fill(&mut self, from: &mut TcpStream) -> bool {
        let filled = self.buffer.len();
        let more = fill(from, &mut self.buffer).unwrap_or(false);
        self.bytes.extend_from_slice(&self.buffer[filled..]);
        more
    }
}

/// Action of the origin after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Waits for the next request.
    Stay,
    /// Closes the connection.
    Close,
}

type Script = dyn Fn(&Received, &mut TcpStream, &Shared) -> io::Result<Then> + Send + Sync;

#[derive(Default)]
struct State {
    received: Vec<Received>,
    versions: HashMap<String, u64>,
    open: HashSet<String>,
    answered: usize,
    is_closed: bool,
    severs: bool,
}

/// State that the test and the connections share.
#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread of the origin panics while it holds the lock")
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until `is_ready`. Returns false if the origin is closed or the time is up.
    fn wait(&self, is_ready: impl Fn(&State) -> bool) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.lock();
        while !is_ready(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.is_closed || left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).expect("as in `lock`").0;
        }
        true
    }

    /// Returns the version of a target.
    pub(crate) fn version(&self, target: &str) -> u64 {
        self.lock().versions.get(target).copied().unwrap_or(0)
    }

    /// Waits until a gate is open.
    pub(crate) fn pass(&self, gate: &str) {
        self.wait(|state| state.open.contains(gate));
    }
}

/// A running origin.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// True if it stops responding when dropped; otherwise it lives as long as the test process.
    ends_on_drop: bool,
}

impl Origin {
    /// Starts an origin whose responses are written in the URLs, on a free port of the loopback
    /// interface. It stops responding when dropped.
    pub fn start() -> Origin {
        Origin::start_at("127.0.0.1:0")
    }

    /// Works like [`Origin::start`] at a given address.
    pub fn start_at(address: &str) -> Origin {
        let listener = TcpListener::bind(address).expect("the origin's address can be bound");
        let mut origin = Origin::serve(listener, Arc::new(url_response::respond));
        origin.ends_on_drop = true;
        origin
    }

    /// Starts an origin that calls `script` with every request and the connection for its response.
    /// It lives as long as the test process.
    pub fn scripted(
        script: impl Fn(&Received, &mut TcpStream) -> Then + Send + Sync + 'static,
    ) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
        Origin::serve(listener, Arc::new(move |request, stream, _| Ok(script(request, stream))))
    }

    /// Starts an origin that responds to every request with the same bytes.
    pub fn always(response: impl Into<Vec<u8>>) -> Origin {
        let response = response.into();
        Origin::scripted(move |_, stream| {
            let _ = stream.write_all(&response);
            Then::Stay
        })
    }

    fn serve(listener: TcpListener, script: Arc<Script>) -> Origin {
        let shared = Arc::<Shared>::default();
        let server = shared.clone();
        let address = serve_each_of(listener, move |stream| {
            let (script, shared) = (script.clone(), server.clone());
            let goes_on = !shared.lock().is_closed;
            thread::spawn(move || converse(stream, &*script, &shared));
            goes_on
        });
        Origin { address, shared, ends_on_drop: false }
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the absolute URL of `target`.
    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    /// Returns the number of requests so far.
    pub fn count(&self) -> usize {
        self.shared.lock().received.len()
    }

    /// Returns the number of requests whose responses have been sent, as far as they are sent.
    pub fn answered(&self) -> usize {
        self.shared.lock().answered
    }

    /// Returns the number of requests for `target`, with any method.
    pub fn fetches(&self, target: &str) -> usize {
        self.requests_for(target).len()
    }

    /// Returns the requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.lock().received.clone()
    }

    /// Returns the requests for `target`, in order of arrival.
    pub fn requests_for(&self, target: &str) -> Vec<Received> {
        self.shared.lock().received.iter().filter(|r| r.path == target).cloned().collect()
    }

    /// Waits until `count` requests have arrived.
    #[track_caller]
    pub fn await_count(&self, count: usize) {
        let arrived = self.shared.wait(|state| state.received.len() >= count);
        assert!(arrived, "{} of {count} requests arrived", self.count());
    }

    /// Waits until `count` responses have been sent.
    #[track_caller]
    pub fn await_answered(&self, count: usize) {
        assert!(self.shared.wait(|state| state.answered >= count), "{count} were not answered");
    }

    /// Waits until `count` requests for `target` have arrived.
    #[track_caller]
    pub fn await_fetches(&self, target: &str, count: usize) {
        let arrived = |state: &State| {
            state.received.iter().filter(|request| request.path == target).count() >= count
        };
        assert!(self.shared.wait(arrived), "{count} fetches of {target} did not arrive");
    }

    /// Changes the version of `target`, and so its body and validators.
    pub fn change(&self, target: &str) {
        self.shared.change(|state| *state.versions.entry(target.into()).or_default() += 1);
    }

    /// From now on, closes a reused connection at its next request, without a response, like a
    /// server whose idle timeout expires at that very moment.
    pub fn sever_used_connections(&self) {
        self.shared.change(|state| state.severs = true);
    }

    /// Opens a gate: responses that wait at it continue, and later ones do not wait.
    pub fn open(&self, gate: &str) {
        self.shared.change(|state| _ = state.open.insert(gate.into()));
    }

    /// Closes a gate again.
    pub fn close(&self, gate: &str) {
        self.shared.change(|state| _ = state.open.remove(gate));
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if self.ends_on_drop {
            self.shared.change(|state| state.is_closed = true);
            // Wakes the accepting thread, which then ends.
            let _ = TcpStream::connect(self.address);
        }
    }
}

fn converse(mut stream: TcpStream, script: &Script, shared: &Shared) {
    let from = stream.peer_addr().map_or(0, |address| address.port());
    let (mut incoming, mut on_connection) = (Incoming::default(), 0);
    loop {
        match incoming.take() {
            Ok(Some(request)) => {
                let mut request = Received { on_connection, from, ..request };
                {
                    let mut state = shared.lock();
                    if state.is_closed || state.severs && on_connection > 0 {
                        return;
                    }
                    request.number = state.received.len();
                    state.received.push(request.clone());
                }
                shared.changed.notify_all();
                on_connection += 1;
                let then = script(&request, &mut stream, shared);
                shared.change(|state| state.answered += 1);
                if !matches!(then, Ok(Then::Stay)) {
                    return;
                }
            }
            Ok(None) if incoming.fill(&mut stream) => {}
            _ => return,
        }
    }
}

/// A server's side of a connection, on an asynchronous stream.
pub struct ServerConnection<S> {
    /// The stream, for unusual responses.
    pub stream: S,
    incoming: Incoming,
    count: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ServerConnection<S> {
    /// Returns the server's side of a stream.
    pub fn new(stream: S) -> ServerConnection<S> {
        ServerConnection { stream, incoming: Incoming::default(), count: 0 }
    }

    /// Returns the next request; `None` if the client closes.
    ///
    /// # Errors
    ///
    /// The connection breaks, or the request is malformed.
    pub async fn request(&mut self) -> io::Result<Option<Received>> {
        loop {
            if let Some(request) = self.incoming.take()? {
                self.count += 1;
                return Ok(Some(Received { on_connection: self.count - 1, ..request }));
            }
            let Incoming { buffer, bytes, .. } = &mut self.incoming;
            if !read_more(&mut self.stream, buffer, bytes).await? {
                return Ok(None);
            }
        }
    }
}

/// Serves the requests of one connection with the bytes that `respond` returns. It ends when the
/// client closes, or after a response with [`Then::Close`].
///
/// # Errors
///
/// The connection breaks, or a request is malformed.
pub async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    mut respond: impl AsyncFnMut(Received) -> (Vec<u8>, Then),
) -> io::Result<()> {
    let mut connection = ServerConnection::new(stream);
    while let Some(request) = connection.request().await? {
        let (bytes, then) = respond(request).await;
        connection.stream.write_all(&bytes).await?;
        if then == Then::Close {
            return connection.stream.shutdown().await;
        }
    }
    Ok(())
}

/// Returns a response with status 200, a body and its length; each of the `fields` ends with CR LF.
pub fn ok(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// Returns a response with this status, a body and its length; each of the `fields` ends with
/// CR LF.
pub fn response(status: u16, fields: &str, body: &[u8]) -> Vec<u8> {
    response_of_length(status, fields, body.len(), body)
}

/// Works like [`response`] with any `Content-Length`.
pub fn response_of_length(status: u16, fields: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Status\r\n{fields}");
    if status != 304 {
        head.push_str(&format!("Content-Length: {length}\r\n"));
    }
    [head.as_bytes(), b"\r\n", body].concat()
}
