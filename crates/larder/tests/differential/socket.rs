//! Bytes of a connection that its server has still to read, from the kernel (`sock_diag(7)`).

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// Longest time for a server to read what was sent. One that refuses a request need not read on.
const PATIENCE: Duration = Duration::from_millis(100);

/// The time in which a server that has read acts on it.
const MOMENT: Duration = Duration::from_millis(1);

/// The type of a message that asks for sockets of one family.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// The flag of a message that asks for something.
const NLM_F_REQUEST: u16 = 1;
/// `AF_INET` and `IPPROTO_TCP`.
const IPV4_TCP: [u8; 2] = [2, 6];
/// Bytes of the header of a message.
const HEADER: usize = 16;
/// Where an answer has the bytes that were not read.
const READ_QUEUE: usize = HEADER + 56;

/// Waits until the socket of the server at `server` has nothing left to read of its connection to
/// `client`: pieces that are sent one after another are then read one after another.
pub fn await_read(server: SocketAddr, client: SocketAddr) {
    let end = Instant::now() + PATIENCE;
    while unread(server, client).is_some_and(|bytes| bytes > 0) && Instant::now() < end {
        thread::sleep(Duration::from_micros(200));
    }
    thread::sleep(MOMENT);
}

/// Returns the bytes that the server has not read; `None` without such a socket.
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

/// Returns a message that asks for the server's end of a connection.
fn question(server: SocketAddr, client: SocketAddr) -> Option<Vec<u8>> {
    let (IpAddr::V4(server_ip), IpAddr::V4(client_ip)) = (server.ip(), client.ip()) else {
        return None;
    };
    let mut request = IPV4_TCP.to_vec();
    request.extend([0, 0]);
    // Every state.
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
    // Number and sender.
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
