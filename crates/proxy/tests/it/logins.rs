//! Connection logins (NTLM, Negotiate): which requests an origin gets on a connection on which a
//! user has logged in.

use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Mutex;

use testkit::authority::{Authority, TlsFront};
use testkit::client::{Client, Reply};
use testkit::origin::{Origin, Then, ok};
use upstream::servers::group::{Group, GroupOptions, Server};
use upstream::settings::endpoint::{Endpoint, Http2};
use upstream::settings::tls::{Tls, TlsOptions};

use crate::rig::Rig;

/// Starts an origin that names the logged-in user of a connection in each response. Responses below
/// `/public` may be shared, all others are fresh for a minute.
fn origin() -> Origin {
    let users: Mutex<HashMap<SocketAddr, String>> = Mutex::default();
    Origin::scripted(move |asked, stream| {
        let (peer, mut users) = (stream.peer_addr().unwrap(), users.lock().unwrap());
        if let Some(user) = asked.field("authorization").and_then(|a| {
            a.strip_prefix("NTLM ").or_else(|| a.strip_prefix("Negotiate ")).map(str::to_owned)
        }) {
            users.insert(peer, user);
        }
        let fresh = match asked.path.starts_with("/public") {
            true => "Cache-Control: public, max-age=60\r\n",
            false => "Cache-Control: max-age=60\r\n",
        };
        let answer = match users.get(&peer) {
            Some(user) => ok(fresh, &format!("{user} {}", asked.on_connection)),
            None if asked.path.starts_with("/challenge") => {
                "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"a, b\", NTLM\r\n\
                 Content-Length: 2\r\n\r\nno"
                    .to_owned()
            }
            None => ok(fresh, &format!("anonymous {}", asked.on_connection)),
        };
        let head = answer.split_inclusive("\r\n\r\n").next().unwrap();
        let is_head = asked.method == "HEAD";
        let _ = stream.write_all(if is_head { head } else { &answer }.as_bytes());
        Then::Stay
    })
}

fn get(client: &mut Client, path: &str, fields: &str) -> Reply {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")).answer()
}

fn text(client: &mut Client, path: &str, fields: &str) -> String {
    get(client, path, fields).text()
}

const ALICE: &str = "Authorization: NTLM alice\r\n";

#[test]
fn an_authenticated_connection_belongs_to_its_client() {
    let (origin, head) = (origin(), "HEAD /h HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let rig = Rig::reverse_of_one_worker(origin.address());
    let (mut alice, mut bob) = (rig.client(), rig.client());
    assert_eq!(text(&mut alice, "/0", ALICE), "alice 0");
    assert_eq!(text(&mut bob, "/1", "Authorization: Negotiate bob\r\n"), "bob 0");
    // Without credentials the clients are still logged in, and share nothing with others.
    for n in 1..4 {
        let page = format!("/page{n}");
        assert_eq!(text(&mut alice, &page, ""), format!("alice {n}"));
        assert_eq!(text(&mut bob, &page, ""), format!("bob {n}"));
        assert!(text(&mut rig.client(), &page, "").starts_with("anonymous"));
    }
    alice.send(head).answer_to("HEAD");
    // Shareable responses are shared, without another request to the origin.
    let before = origin.count();
    assert_eq!(text(&mut alice, "/public", ""), "alice 5");
    assert_eq!(text(&mut bob, "/public", ""), "alice 5");
    assert_eq!(text(&mut rig.client(), "/public", ""), "alice 5");
    assert_eq!(origin.count(), before + 1);
    // The origin's connection ends with the client's.
    drop(alice);
    for n in 0..5 {
        assert!(text(&mut rig.client(), &format!("/{n}"), "X: y\r\n").starts_with("anonymous"));
    }
}

#[test]
fn a_connection_challenged_for_a_login_is_closed() {
    let origin = origin();
    let rig = Rig::reverse_of_one_worker(origin.address());
    assert_eq!(get(&mut rig.client(), "/challenge", "").status, 401);
    for n in 0..2 {
        assert_eq!(text(&mut rig.client(), &format!("/{n}"), ""), format!("anonymous {n}"));
    }
}

#[test]
fn clients_with_several_users_get_no_pinned_connection() {
    let origin = origin();
    let rig = Rig::reverse_of_one_worker(origin.address());
    for field in ["Via: 1.1 front\r\n", "X-Forwarded-For: 192.0.2.1\r\n", "Forwarded: for=x\r\n"] {
        let mut front = rig.client();
        assert!(text(&mut front, "/0", &format!("{ALICE}{field}")).starts_with("alice"));
        assert!(text(&mut front, "/1", &format!("{field}X: y\r\n")).starts_with("anonymous"));
        // The same if the client turns out to be a proxy only later.
        let mut front = rig.client();
        assert!(text(&mut front, "/2", ALICE).starts_with("alice"));
        assert!(text(&mut front, "/3", field).starts_with("anonymous"), "{field}");
        assert!(text(&mut front, "/4", "").starts_with("anonymous"), "{field}");
    }
    let trusting = Rig::reverse_to(
        Group::one(Endpoint::plain("127.0.0.1", origin.address().port())),
        |options| options.forwarded.trust = vec!["127.0.0.0/8".parse().unwrap()].into(),
    );
    let mut front = trusting.client();
    assert_eq!(text(&mut front, "/0", ALICE), "alice 0");
    assert!(text(&mut front, "/1", "").starts_with("anonymous"));
}

#[test]
fn a_client_stays_at_the_server_that_authenticated_it() {
    let origins = [origin(), origin(), origin()];
    let server =
        |origin: &Origin| Server::new(Endpoint::plain("127.0.0.1", origin.address().port()));
    let servers = origins.iter().map(server).collect();
    let rig = Rig::reverse_as(Group::new("main", servers, GroupOptions::default()), true);
    let mut alice = rig.client();
    for n in 0..7 {
        let fields = if n == 0 { ALICE } else { "" };
        assert_eq!(text(&mut alice, &format!("/{n}"), fields), format!("alice {n}"));
        get(&mut rig.client(), &format!("/other{n}"), "");
    }
}

#[test]
fn logins_use_http1_even_if_the_server_speaks_http2() {
    let (authority, origin) = (Authority::new(), origin());
    let config = authority.server(authority.issue("origin.example"), &["h2", "http/1.1"], false);
    let front = TlsFront::start(origin.address(), config);
    let options = TlsOptions {
        authorities: Some(authority.file()),
        name: Some("origin.example".to_owned()),
        ..TlsOptions::default()
    };
    let tls = Some(Tls::new(options, Http2::Negotiated));
    let plain = Endpoint::plain("127.0.0.1", front.address().port());
    let endpoint = Endpoint { tls, http2: Http2::Negotiated, ..plain };
    let rig = Rig::reverse_to(Group::one(endpoint), |_| ());
    let mut alice = rig.client();
    assert_eq!(text(&mut alice, "/0", ALICE), "alice 0");
    assert_eq!(text(&mut alice, "/1", ""), "alice 1");
}
