//! Access rules and tunnels as seen by clients.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use net::address::Locals;
use proxy::observe::event::Event;
use proxy::observe::front_kind::FrontKind;
use proxy::options::Options;
use proxy::rules::access::{Access, Action, PortRange, Rule};
use testkit::client::Client;
use testkit::message::Head;
use testkit::origin::Origin;

use crate::rig::Rig;

fn access() -> Access {
    Access::new(FrontKind::Forward, Locals::of_this_machine().unwrap())
        .connect_ports(vec!["1-65535".parse::<PortRange>().unwrap()])
}

/// Starts a proxy that knows its own listeners: the one for clients and `admin`.
fn rig(admin: SocketAddr, rules: Vec<Rule>) -> Rig {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = vec![listener.local_addr().unwrap(), admin];
    let access = Arc::new(access().own(own).rules(rules));
    let mut options = Options::new(proxy::origin::site::Front::forward(), access);
    options.client.drain = Duration::ZERO;
    Rig::start_at(listener, options)
}

fn connect(client: &mut Client, target: &str) -> Head {
    client.send(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")).head()
}

#[test]
fn no_spelling_of_an_address_reaches_the_proxys_listeners() {
    let admin = TcpListener::bind("127.0.0.1:0").unwrap();
    let rig = rig(admin.local_addr().unwrap(), Vec::new());
    let ports = [rig.address.port(), admin.local_addr().unwrap().port()];
    for host in [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",
        "0",
        "127.9.9.9",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:0.0.0.0]",
        "[::127.0.0.1]",
    ] {
        for port in ports {
            let answer = rig.client().get(&format!("http://{host}:{port}/metrics"));
            let refused = (answer.status, answer.detail());
            assert_eq!(refused, (403, "DENIED(own-address)".to_owned()), "{host}: {answer:?}");
            let head = connect(&mut rig.client(), &format!("{host}:{port}"));
            assert!(head.starts_with("HTTP/1.1 403 "), "{host}: {head}");
        }
    }
    admin.set_nonblocking(true).unwrap();
    assert!(admin.accept().is_err(), "someone connected to the admin interface");
}

#[test]
fn a_rule_refuses_by_name_and_by_address() {
    let origin = Origin::always("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let unreachable = "127.0.0.1:1".parse().unwrap();
    let mut by_name = Rule::new(Action::Deny);
    by_name.hosts = vec![".ads.example".parse().unwrap()];
    let mut by_address = Rule::new(Action::Deny);
    by_address.destinations = vec!["127.0.0.2/32".parse().unwrap()];
    let rig = rig(unreachable, vec![by_name, by_address]);
    let port = origin.address().port();
    assert_eq!(rig.client().get(&origin.url("/")).status, 200);
    for url in ["http://x.ads.example/".to_owned(), format!("http://127.0.0.2:{port}/")] {
        let answer = rig.client().get(&url);
        assert_eq!((answer.status, answer.detail().as_str()), (403, "DENIED(rule)"), "{url}");
        assert!(answer.text().contains("a rule in its configuration"), "{}", answer.text());
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn tunnels_of_every_worker_are_cut_when_the_drain_ends() {
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = origin.local_addr().unwrap().to_string();
    let mut rig = rig("127.0.0.1:1".parse().unwrap(), Vec::new());
    // Each connection goes to the worker with the fewest, so each worker gets one.
    let mut clients = [rig.client(), rig.client()];
    for client in &mut clients {
        let head = connect(client, &target);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    }
    rig.stop();
    for client in &mut clients {
        assert!(client.closed());
    }
}

#[test]
fn events_are_counted() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nCache-Control: max-age=60\r\n\r\nabc";
    let origin = Origin::always(answer);
    let mut rig = rig("127.0.0.1:1".parse().unwrap(), Vec::new());
    let mut client = rig.client();
    for path in ["/a", "/b", "/a"] {
        assert_eq!(client.get(&origin.url(path)).text(), "abc");
    }
    let mut tunnel = rig.client();
    connect(&mut tunnel, &origin.address().to_string());
    tunnel.send("GET /c HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(tunnel.answer().text(), "abc");
    rig.stop();
    let total = |event| rig.seen.metrics.total(event);
    assert_eq!((total(Event::FillBegun), total(Event::FillStored)), (2, 2));
    assert_eq!((total(Event::TunnelOpened), total(Event::TunnelClosed)), (1, 1));
    let upstream = (total(Event::UpstreamConnected), total(Event::UpstreamReused));
    assert_eq!(upstream, (2, 1), "one for two fills, one for the tunnel");
    // Each response of the origin was sent four times, with heads of the proxy or in the tunnel.
    assert!(total(Event::BytesSent) > 4 * 3 + answer.len() as u64);
    assert!(total(Event::BytesReceived) > 100);
}

#[test]
fn a_tunnel_to_nowhere_is_a_502_in_plain_text() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let rig = rig("127.0.0.1:1".parse().unwrap(), Vec::new());
    let request = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let answer = rig.client().send(request).answer();
    assert_eq!((answer.status, answer.detail().as_str()), (502, "ERROR(connect-refused)"));
    assert!(answer.field("content-type").unwrap().starts_with("text/plain"), "{answer:?}");
}
