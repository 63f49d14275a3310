//! Loopback addresses for programs that are started, stopped and started again.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The first port to give out, and the number of ports: below the kernel's ephemeral ports.
const FIRST: u32 = 10_000;
const PORTS: u32 = 22_000;

/// Returns a loopback address that was free a moment ago and has not been returned before. Its IP
/// address belongs to this process (`own_ip`). No outgoing connection, whose local address is
/// 127.0.0.1, and no other program can thus take the port before the program under test listens on
/// it, or while that program is restarted.
pub fn free() -> SocketAddr {
    let ip = own_ip(std::process::id());
    free_at(if TcpListener::bind((ip, 0)).is_ok() { ip } else { Ipv4Addr::LOCALHOST.into() })
}

/// Returns an address like [`free`], at the address of `localhost`, for programs that are reached
/// by that name.
pub fn free_at_localhost() -> SocketAddr {
    free_at(Ipv4Addr::LOCALHOST.into())
}

fn free_at(ip: IpAddr) -> SocketAddr {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    loop {
        // Different processes that share one address begin at different ports.
        let begin = std::process::id().wrapping_mul(64);
        let port = FIRST + begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % PORTS;
        let address = SocketAddr::from((ip, port as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Returns the address in 127.64.0.0/10 that belongs to a process; process numbers have at most 22
/// bits.
fn own_ip(process: u32) -> IpAddr {
    let [_, high, middle, low] = process.to_be_bytes();
    Ipv4Addr::new(127, 64 + high % 64, middle, low).into()
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

#[test]
fn processes_have_addresses_of_their_own() {
    assert_eq!(own_ip(1).to_string(), "127.64.0.1");
    assert_eq!(own_ip((1 << 22) - 1).to_string(), "127.127.255.255");
    assert_ne!(own_ip(256), own_ip(1));
}
