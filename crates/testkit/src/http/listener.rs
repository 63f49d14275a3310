//! Servers on the loopback interface that handle each connection in a thread of its own.

use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Listens on a free port for as long as the test process lives, and passes each connection to
/// `serve`.
pub fn serve_each(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let serve = Arc::new(serve);
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
    serve_each_of(listener, move |stream| {
        let serve = serve.clone();
        thread::spawn(move || serve(stream));
        true
    })
}

/// Reads a head and no byte after it; returns what there is of it when the stream ends.
pub fn read_head(stream: &mut impl Read) -> Vec<u8> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    head
}

/// Starts a server that sends received bytes back in capitals.
pub fn echo() -> SocketAddr {
    serve_each(|mut stream| {
        let mut buffer = [0; 1000];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            let _ = stream.write_all(&buffer[..n].to_ascii_uppercase());
        }
    })
}

/// A listener that accepts no further connection.
pub struct BlackHole {
    _listener: socket2::Socket,
    /// The connections that fill its queue.
    _held: Vec<TcpStream>,
}

/// Opens a listener whose queue is full: connecting to it takes for ever.
///
/// # Panics
///
/// The address cannot be bound, or the queue never fills.
pub fn black_hole(address: SocketAddr) -> BlackHole {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let listener = socket.expect("a socket");
    listener.bind(&address.into()).expect("an address that can be bound");
    listener.listen(0).expect("a bound socket");
    let mut held = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        held.push(stream);
        assert!(held.len() < 100, "the queue never fills");
    }
    BlackHole { _listener: listener, _held: held }
}

/// Passes each connection to `accept`, in one thread, until it returns false.
pub(crate) fn serve_each_of(
    listener: TcpListener,
    accept: impl Fn(TcpStream) -> bool + Send + 'static,
) -> SocketAddr {
    let address = listener.local_addr().expect("a bound address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = stream.set_nodelay(true);
            if !accept(stream) {
                return;
            }
        }
    });
    address
}
