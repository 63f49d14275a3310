//! Finds the process that listens at an address, by its socket in `/proc`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Returns the process that listens at an address. If several processes share the socket, returns
/// the lowest process ID.
///
/// # Errors
/// Fails if no process listens there, or privileges to find it are missing.
pub fn process_at(address: SocketAddr) -> Result<u32, String> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|table| {
        let text = fs::read_to_string(table).ok()?;
        text.lines().skip(1).find_map(|line| listening(line, address))
    });
    let inode = inode.ok_or_else(|| format!("nobody listens at {address} on this machine"))?;
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").map_err(|error| format!("/proc: {error}"))?;
    let mut holders: Vec<u32> = processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|process| holds(*process, &wanted))
        .collect();
    holders.sort_unstable();
    holders.first().copied().ok_or_else(|| {
        format!("it cannot be seen whose the socket at {address} is: name it with --pid")
    })
}

fn holds(process: u32, socket: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let mut files = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    files.any(|link| link.to_str() == Some(socket))
}

/// Returns the inode of a line of the kernel's table, if it listens at the address, or at its port
/// on all addresses.
fn listening(line: &str, address: SocketAddr) -> Option<u64> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state) = (fields.get(1)?, fields.get(3)?);
    let (ip, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    if *state != LISTEN || port != address.port() {
        return None;
    }
    let ip = ip_of(ip)?;
    (ip == address.ip() || ip.is_unspecified()).then(|| fields.get(9)?.parse().ok())?
}

/// Parses an address as the kernel shows it: words in the machine's byte order, in hexadecimal.
fn ip_of(text: &str) -> Option<IpAddr> {
    let words: Option<Vec<[u8; 4]>> = (0..text.len())
        .step_by(8)
        .map(|at| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes()))
        .collect();
    match words?.concat()[..] {
        [a, b, c, d] => Some(Ipv4Addr::new(a, b, c, d).into()),
        ref bytes => {
            let ip = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
            Some(ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4))
        }
    }
}

#[test]
fn a_listener_of_this_process_is_found() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    assert_eq!(process_at(address), Ok(std::process::id()));
    drop(listener);
    assert!(process_at(address).is_err());
}

#[test]
fn lines_of_the_kernels_table_are_read() {
    let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 \
                0 0 12345 1 x";
    if cfg!(target_endian = "little") {
        assert_eq!(listening(line, "127.0.0.1:8080".parse().unwrap()), Some(12_345));
        assert_eq!(listening(line, "127.0.0.2:8080".parse().unwrap()), None);
        assert_eq!(listening(line, "127.0.0.1:8081".parse().unwrap()), None);
    }
}
