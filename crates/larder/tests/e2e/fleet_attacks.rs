//! Strangers and hostile nodes at the address for the nodes of a fleet: clients and the other nodes
//! are still served.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use testkit::client::request;
use testkit::fleet_nodes::{Crowd, Fleet, await_whole, fetch, purge, view};
use testkit::io::eventually;
use testkit::origin::Origin;

use crate::process::raise_descriptor_limit;

/// Start of an HTTP/2 connection, with settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Opens a connection and sends these bytes.
fn begun(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // It may have been closed in favour of a later one.
    let _ = stream.write_all(bytes);
    stream
}

/// Returns whether the other end closes the connection.
fn is_closed(mut stream: TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn strangers_at_the_nodes_address_keep_out_neither_clients_nor_nodes() {
    raise_descriptor_limit();
    let origin = Origin::start();
    let fleet = Fleet::of(2, &origin);
    let fleet = fleet.each(|setup, _| setup.config("[client]\nconnections = 40\n"));
    let mut nodes = fleet.start();
    // A client that sends requests from time to time.
    let mut client = nodes[0].connect();
    let mut ask_again = || {
        client.send(b"GET /again HTTP/1.1\r\nHost: site.test\r\n\r\n");
        client
            .read("GET")
            .expect("its connection was not closed for a stranger's")
            .verify("/again");
    };
    ask_again();
    let mut strangers = Vec::new();
    // Handshakes that never begin or never end; more than the limit.
    for number in 0..400 {
        let hello: &[u8] = if number % 2 == 0 { b"" } else { b"\x16\x03\x01\x02\0\x01" };
        strangers.push(begun(fleet.addresses[0], hello));
    }
    ask_again();
    let crowd = Crowd::at(&nodes.iter().collect::<Vec<_>>());
    // A node that must connect anew is accepted.
    nodes.pop().unwrap().kill();
    drop(crowd);
    let back = fleet.setups[1].start();
    nodes.push(back);
    nodes.iter().for_each(|node| await_whole(node, 2));
    let crowd = Crowd::at(&nodes.iter().collect::<Vec<_>>());
    for number in 0..8 {
        let target = format!("/new{number}");
        nodes.iter().for_each(|node| drop(fetch(node, &target)));
    }
    assert!(crowd.end() >= 20);
    let (code, said) = purge(&nodes[1], "/new0");
    assert!(code == 0 && said.contains("; and at 1 other node"), "{code} {said}");
}

#[test]
fn endless_heads_and_false_messages_end_their_own_connection_at_most() {
    let origin = Origin::start();
    // Without a key, any client of this address counts as a node.
    let fleet = Fleet::of(1, &origin).each(|setup, _| setup.without("fleet-key").without("join"));
    let nodes = fleet.start();
    let (node, address) = (&nodes[0], fleet.addresses[0]);
    let crowd = Crowd::at(&[node]);
    // A head without an end: of one endless field, and of many small ones.
    for part in [vec![b'x'; 16_000], b"a: b\r\n".repeat(2_000)] {
        let mut stream = begun(address, b"GET / HTTP/1.1\r\nHost: a\r\nx: ");
        let mut sent = Ok(());
        for _ in 0..4_000 {
            sent = sent.and_then(|()| stream.write_all(&part));
        }
        assert!(sent.is_err() || is_closed(stream), "48 MB of a head were taken");
    }
    // Another version of HTTP, no HTTP at all, and a request that is no question.
    for bytes in [PREFACE, &[0xff; 100], b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"]
    {
        assert!(is_closed(begun(address, bytes)));
    }
    // Invalid gossip: one line in the log, however many datagrams arrive.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in 0..5_000 {
        socket.send_to(&vec![0xa5; length % 1_400], address).unwrap();
    }
    assert!(node.says("gossip from "), "{}", node.said());
    assert!(crowd.end() >= 10);
    let lines = node.said().lines().filter(|line| line.contains("gossip from ")).count();
    assert_eq!(lines, 1, "{}", node.said());
    assert!(eventually(|| view(node)["state"] == "serving"));
    let options = request("OPTIONS", "/").header("Host", "site.test").send(node.address());
    assert!(options.status < 500, "{:?}", options.head);
}
