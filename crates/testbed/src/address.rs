//! Addresses on loopback for programs that are started, stopped and started again.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The first port that is given, and how many there are: below those that the kernel gives to
/// connections.
const FIRST: u32 = 10_000;
const PORTS: u32 = 22_000;

/// An address on loopback that was free a moment ago and that nobody else in this process was
/// given. Its port is below those that the kernel gives to connections, so that none of them takes
/// it while a program is stopped and started on it.
pub fn free() -> SocketAddr {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    loop {
        // Tests of several programs at a time begin at different ports.
        let begin = std::process::id().wrapping_mul(64);
        let port = FIRST + begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % PORTS;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

#[test]
fn nobody_is_given_the_address_of_another_or_of_a_listener() {
    let listener = TcpListener::bind(free()).unwrap();
    let taken = listener.local_addr().unwrap();
    let mut given: Vec<SocketAddr> = (0..200).map(|_| free()).collect();
    given.sort();
    given.dedup();
    assert_eq!(given.len(), 200);
    assert!(!given.contains(&taken));
    assert!(given.iter().all(|address| (10_000..32_000).contains(&address.port())));
}
