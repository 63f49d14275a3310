//! The number of unread bytes at the server's end of a connection, from the kernel
//! (`sock_diag(7)`).

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// Maximum time for a server to read the sent bytes. A server that rejects a request need not read
/// on.
const PATIENCE: Duration = Duration::from_millis(100);

/// Time for a server to act on the bytes that it has read.
const MOMENT: Duration = Duration::from_millis(1);

/// Type of a message that queries sockets of one family.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Flag of a request message.
const NLM_F_REQUEST: u16 = 1;
/// `AF_INET` and `IPPROTO_TCP`.
const IPV4_TCP: [u8; 2] = [2, 6];
/// Bytes of the header of a message.
const HEADER: usize = 16;
/// Position of the number of unread bytes in the kernel's reply.
const READ_QUEUE: usize = HEADER + 56;

/// Waits until the server at `server` has read all bytes of its connection to `client`, so that
/// pieces that are sent one after another are also read one after another.
pub fn await_read(server: SocketAddr, client: SocketAddr) {
    let end = Instant::now() + PATIENCE;
    while unread(server, client).is_some_and(|bytes| bytes > 0) && Instant::now() < end {
        thread::sleep(Duration::from_micros(200));
    }
    thread::sleep(MOMENT);
}

/// Returns the number of bytes that the server has not read; `None` without such a socket.
fn unread(server: SocketAddr, client: SocketAddr) -> Option<u32> {
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )
    .ok()?;
    send(&kernel, &question(server, client)?, SendFlags::empty()).ok()?;
    let mut answer = [0; 1024];
    let (length, _) = recv(&kernel, &mut answer[..], RecvFlags::empty()).ok()?;
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    let queue = answer[..length].get(READ_QUEUE..READ_QUEUE + 4)?;
    (kind == SOCK_DIAG_BY_FAMILY).then(|| u32::from_ne_bytes(queue.try_into().expect("four bytes")))
}

/// Returns a message that queries the server's end of a connection.
fn question(server: SocketAddr, client: SocketAddr) -> Option<Vec<u8>> {
    let (IpAddr::V4(server_ip), IpAddr::V4(client_ip)) = (server.ip(), client.ip()) else {
        return None;
    };
    let mut request = IPV4_TCP.to_vec();
    request.extend([0, 0]);
    // All states.
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(server.port().to_be_bytes());
    request.extend(client.port().to_be_bytes());
    for ip in [server_ip, client_ip] {
        request.extend(ip.octets());
        request.extend([0; 12]);
    }
    // Any interface; no cookie.
    request.extend([0; 4]);
    request.extend([0xff; 8]);
    let length = (HEADER + request.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and sender.
    message.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    message.extend(request);
    Some(message)
}

#[test]
fn the_kernel_says_what_a_server_has_not_read() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = std::net::TcpStream::connect(address).unwrap();
    let (mut server, from) = listener.accept().unwrap();
    client.write_all(b"hello").unwrap();
    assert_eq!(unread(address, from), Some(5));
    server.read_exact(&mut [0; 3]).unwrap();
    assert_eq!(unread(address, from), Some(2));
}
