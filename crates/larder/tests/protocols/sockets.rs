//! The PROXY protocol, Unix sockets, IPv6.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::io::PATIENCE;
use testkit::larder::{Larder, Setup, larder_path};
use testkit::origin::Origin;
use testkit::skip::skipped;

const REQUEST: &[u8] = b"GET /page HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

/// Starts a reverse proxy with an additional listener.
fn with_listener(address: &str, more: &str) -> (Origin, Setup, Larder) {
    let origin = Origin::start();
    let config = format!("[[listener]]\naddress = \"{address}\"\n{more}");
    let setup = Setup::reverse(&origin.url("")).config(&config);
    let larder = setup.start();
    (origin, setup, larder)
}

/// Sends these bytes in two parts; returns the response.
fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> String {
    let (first, rest) = bytes.split_at(bytes.len() / 3);
    let mut answer = Vec::new();
    let _ = stream.write_all(first);
    std::thread::sleep(Duration::from_millis(10));
    let _ = stream.write_all(rest);
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn client_seen(origin: &Origin) -> String {
    let seen = origin.requests_for("/page");
    seen.last().unwrap().head.get("x-forwarded-for").unwrap().to_owned()
}

#[test]
fn a_balancer_says_who_the_client_is() {
    let address = testkit::address::free();
    let more = "proxy-protocol = [\"127.0.0.0/8\"]\nh2c = true\n";
    let (origin, _setup, larder) = with_listener(&address.to_string(), more);
    let v1 = [b"PROXY TCP4 192.0.2.7 192.0.2.1 5 80\r\n", REQUEST].concat();
    assert!(exchange(connect(address), &v1).starts_with("HTTP/1.1 200"));
    assert_eq!(client_seen(&origin), "192.0.2.7");
    let mut v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\x00\x24".to_vec();
    let (source, target) = ([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9], [0; 16]);
    v2.extend([&source[..], &target[..], &[0, 5, 0, 80]].concat());
    v2.extend(b"GET /page?cc=no-store HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    assert!(exchange(connect(address), &v2).starts_with("HTTP/1.1 200"));
    let seen = origin.requests_for("/page?cc=no-store");
    assert_eq!(seen[0].head.get("x-forwarded-for"), Some("2001:db8::9"));
    for bytes in [REQUEST.to_vec(), b"PROXY TCP4 nonsense\r\n".to_vec()] {
        assert_eq!(exchange(connect(address), &bytes), "");
    }
    let said = larder.metrics();
    assert!(said.contains("larder_proxy_protocol_refused_total 2\n"), "{said}");
    // If no header is expected, one is not a valid request.
    let other = exchange(connect(larder.address()), &v1);
    assert!(other.starts_with("HTTP/1.1 400"), "{other}");
}

#[test]
fn only_a_trusted_balancer_is_believed() {
    let address = testkit::address::free();
    let more = "proxy-protocol = [\"192.0.2.0/24\"]\n";
    let (origin, _setup, larder) = with_listener(&address.to_string(), more);
    let claimed = [b"PROXY TCP4 192.0.2.7 192.0.2.1 5 80\r\n", REQUEST].concat();
    for bytes in [claimed, REQUEST.to_vec()] {
        assert_eq!(exchange(connect(address), &bytes), "");
    }
    assert_eq!(origin.requests_for("/page").len(), 0);
    assert!(larder.metrics().contains("larder_proxy_protocol_refused_total 2\n"));
}

#[test]
fn a_unix_socket_serves_and_goes_with_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("larder.sock");
    let address = format!("unix:{}", path.display());
    let (origin, setup, larder) = with_listener(&address, "mode = \"600\"\n");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let answer = exchange(UnixStream::connect(&path).unwrap(), REQUEST);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(client_seen(&origin), "127.0.0.1");
    let second = Setup::forward().config(&format!("listen = \"{address}\"\n")).without("listen");
    let (status, said) = second.flag("listen", &address).refused();
    assert!(!status.success() && said.contains("another process listens there"), "{said}");
    larder.kill();
    assert!(path.exists(), "a killed process leaves it behind");
    let larder = setup.start();
    assert!(exchange(UnixStream::connect(&path).unwrap(), REQUEST).starts_with("HTTP/1.1 200"));
    larder.stop();
    assert!(!path.exists());
}

/// The mode of a socket in the file system decides who may connect: whatever networks are
/// configured, a header is required and trusted.
#[test]
fn a_balancer_on_a_unix_socket_says_who_the_client_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("larder.sock");
    let address = format!("unix:{}", path.display());
    let told = [b"PROXY TCP4 192.0.2.7 192.0.2.1 5 80\r\n", REQUEST].concat();
    let more = "proxy-protocol = [\"192.0.2.0/24\"]\n";
    let (origin, _setup, larder) = with_listener(&address, more);
    let answer = exchange(UnixStream::connect(&path).unwrap(), &told);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(client_seen(&origin), "192.0.2.7");
    assert_eq!(exchange(UnixStream::connect(&path).unwrap(), REQUEST), "");
    assert!(larder.metrics().contains("larder_proxy_protocol_refused_total 1\n"));
}

/// A program started as by a service manager, with sockets of its own from descriptor 3 on.
#[test]
fn sockets_of_a_service_manager_are_served_with_what_their_tables_say() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("larder.sock");
    let (tcp, unix) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), UnixListener::bind(&path).unwrap());
    let (address, origin) = (tcp.local_addr().unwrap(), Origin::start());
    let config = directory.path().join("larder.toml");
    let text = format!(
        "cache = ['{}']\ncache-size = '64M'\nmemory = '32M'\nreverse = '{}'\nadmin = 'off'\n\
         [[listener]]\naddress = '{address}'\n\
         [[listener]]\naddress = 'unix:{}'\nproxy-protocol = ['127.0.0.1']\n",
        directory.path().join("cache").display(),
        origin.url(""),
        path.display()
    );
    fs::write(&config, text).unwrap();
    // They are passed as standard input and output, because only this child inherits those.
    let script = "exec 3<&0 4<&1 </dev/null >/dev/null; \
                  LISTEN_PID=$$ LISTEN_FDS=2 exec \"$0\" serve --config \"$1\"";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).arg(larder_path()).arg(&config).current_dir(directory.path());
    command.stdin(OwnedFd::from(tcp)).stdout(OwnedFd::from(unix)).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // Both sockets have been listening since before the start, so no client is refused.
    let plain = exchange(connect(address), REQUEST);
    let told = [b"PROXY TCP4 192.0.2.7 192.0.2.1 5 80\r\n", REQUEST].concat();
    let told = String::from_utf8(told).unwrap().replace("/page", "/page?cc=no-store");
    let balanced = exchange(UnixStream::connect(&path).unwrap(), told.as_bytes());
    let without = exchange(UnixStream::connect(&path).unwrap(), REQUEST);
    let _ = child.kill();
    let _ = child.wait();
    assert!(plain.starts_with("HTTP/1.1 200"), "{plain}");
    assert_eq!(client_seen(&origin), "127.0.0.1");
    assert!(balanced.starts_with("HTTP/1.1 200"), "{balanced}");
    let seen = origin.requests_for("/page?cc=no-store");
    assert_eq!(seen[0].head.get("x-forwarded-for"), Some("192.0.2.7"));
    assert_eq!(without, "");
}

#[test]
fn ipv6_and_both_families_on_one_socket() {
    let Ok(free) = TcpListener::bind("[::]:0") else {
        return skipped("no IPv6 on this machine");
    };
    let port = free.local_addr().unwrap().port();
    drop(free);
    let (origin, _setup, _larder) = with_listener(&format!("[::]:{port}"), "");
    for (client, seen) in [("[::1]", "::1"), ("127.0.0.1", "127.0.0.1")] {
        let address = format!("{client}:{port}").parse().unwrap();
        let request = String::from_utf8_lossy(REQUEST).replace("/page", "/page?cc=no-store");
        assert!(exchange(connect(address), request.as_bytes()).starts_with("HTTP/1.1 200"));
        let last = origin.requests_for("/page?cc=no-store").pop().unwrap();
        assert_eq!(last.head.get("x-forwarded-for"), Some(seen));
    }
}
