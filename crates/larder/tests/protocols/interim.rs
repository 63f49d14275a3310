//! Exchanges in HTTP/2 before the response: interim responses (RFC 9110, 15.2; RFC 8297), and the
//! request body, for which the proxy waits only for a limited time.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use http::{HeaderMap, Request, StatusCode};
use testkit::authority::Authority;
use testkit::larder::{Larder, Setup};
use testkit::listener::{read_head, serve_each};
use testkit::origin::{Origin, ok};
use tokio::net::TcpStream;

use crate::caller::{handshake, run};

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\
    Connection: x-hop\r\nX-Hop: 1\r\n\r\n";

/// Starts an origin server that sends interim responses before the final one, and requests an
/// expected body with a 100.
fn talkative() -> SocketAddr {
    serve_each(|mut stream| {
        let head = read_head(&mut stream);
        let mut text = "hello".to_owned();
        if String::from_utf8_lossy(&head).to_lowercase().contains("expect: 100-continue") {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
            let mut body = [0; 5];
            stream.read_exact(&mut body).unwrap();
            text = String::from_utf8(body.to_vec()).unwrap();
        }
        let last = ok("Cache-Control: max-age=60\r\nConnection: close\r\n", &text);
        // The client may be gone.
        let _ = stream.write_all(format!("{HINTS}{HINTS}{last}").as_bytes());
    })
}

/// An HTTP/2 client.
struct Client(SendRequest<Bytes>);

impl Client {
    async fn plain(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).await.unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Client(send)
    }

    async fn request(&self, request: Request<()>, ends: bool) -> (ResponseFuture, Sink) {
        let mut send = self.0.clone().ready().await.unwrap();
        send.send_request(request, ends).unwrap()
    }
}

type Sink = h2::SendStream<Bytes>;

/// Returns the next interim response; `None` when the final one has arrived.
async fn interim(answer: &mut ResponseFuture) -> Option<(StatusCode, HeaderMap)> {
    let head = std::future::poll_fn(|cx| answer.poll_informational(cx)).await?.unwrap();
    Some((head.status(), head.headers().clone()))
}

async fn answer(answer: ResponseFuture) -> (StatusCode, HeaderMap, Vec<u8>) {
    let (head, mut body) = answer.await.unwrap().into_parts();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        bytes.extend(data);
    }
    (head.status, head.headers, bytes)
}

fn plain(upstream: &str, more: &str) -> (SocketAddr, Larder, Setup) {
    let address = testkit::address::free();
    let config = format!("[[listener]]\naddress = \"{address}\"\nh2c = true\n{more}");
    let setup = Setup::reverse(upstream).config(&config);
    (address, setup.start(), setup)
}

#[test]
fn hints_come_before_the_answer_however_it_comes_about() {
    let (address, _larder, _setup) = plain(&format!("http://{}", talkative()), "");
    run(async {
        let client = Client::plain(address).await;
        // Forwarded, and fetched for the cache.
        for (method, path) in [("POST", "/form"), ("GET", "/page")] {
            let request = Request::builder().method(method).uri(format!("http://a{path}"));
            let (mut coming, _) = client.request(request.body(()).unwrap(), true).await;
            for _ in 0..2 {
                let (status, fields) = interim(&mut coming).await.unwrap();
                assert_eq!(status, 103, "{method}");
                assert_eq!(fields["link"], "</a.css>; rel=preload");
                assert_eq!(fields.len(), 1, "{fields:?}");
            }
            let (status, fields, body) = answer(coming).await;
            assert_eq!((status.as_u16(), &body[..]), (200, &b"hello"[..]));
            assert!(fields.contains_key("date"), "{fields:?}");
        }
        // From the cache there are none.
        let request = Request::get("http://a/page").body(()).unwrap();
        let (mut coming, _) = client.request(request, true).await;
        assert!(interim(&mut coming).await.is_none());
        let (status, fields, body) = answer(coming).await;
        assert_eq!((status.as_u16(), &body[..]), (200, &b"hello"[..]));
        assert!(fields["cache-status"].to_str().unwrap().contains("HIT"), "{fields:?}");
    });
}

#[test]
fn hints_pass_through_http2_on_both_sides() {
    let (authority, address) = (Authority::new(), testkit::address::free_at_localhost());
    let setup = Setup::reverse(&format!("http://{}", talkative()));
    let chain = authority.issue_file(&setup.path(""), "localhost", &["localhost"]);
    let listener = format!("[[listener]]\naddress = \"{address}\"\ntls = true\n");
    let certificate = format!("[[certificate]]\nchain = {chain:?}\n");
    let setup = setup.config(&format!("{listener}{certificate}"));
    let _server = setup.start();
    let own = Setup::reverse(&format!("https://localhost:{}", address.port()));
    let (ca, front) = (authority.file_in(&own.path("")), testkit::address::free());
    let listener = format!("[[listener]]\naddress = \"{front}\"\ntls = true\n");
    let upstream = format!("reverse-host = 'upstream'\n[upstream]\ntls-ca = {ca:?}\n");
    let own = own.config(&format!("{upstream}{listener}{certificate}"));
    let _front = own.start();
    run(async {
        let config = authority.client(&["h2"]);
        let stream = handshake(front, "localhost", config).await.unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("https://localhost/page").body(()).unwrap();
        let (mut coming, _) = Client(send).request(request, true).await;
        let (status, fields) = interim(&mut coming).await.unwrap();
        assert_eq!(
            (status.as_u16(), &fields["link"]),
            (103, &"</a.css>; rel=preload".parse().unwrap())
        );
        assert_eq!(answer(coming).await.2, b"hello");
    });
}

#[test]
fn a_client_that_waits_to_be_asked_for_its_body_is_asked() {
    // By the origin, which gets the request first, or by the proxy, which does not forward the
    // expectation.
    for (limits, expected) in [("[client]\nrequest-buffer = 0\n", "world"), ("", "hello")] {
        let (address, _larder, _setup) = plain(&format!("http://{}", talkative()), limits);
        run(async {
            let client = Client::plain(address).await;
            let request = Request::post("http://a/form").header("expect", "100-continue");
            let request = request.header("content-length", "5").body(()).unwrap();
            let (mut coming, mut sink) = client.request(request, false).await;
            assert_eq!(interim(&mut coming).await.unwrap().0, 100);
            sink.send_data(Bytes::from_static(b"world"), true).unwrap();
            assert_eq!(interim(&mut coming).await.unwrap().0, 103);
            let (status, _, body) = answer(coming).await;
            assert_eq!((status.as_u16(), &body[..]), (200, expected.as_bytes()));
        });
    }
}

#[test]
fn a_body_that_is_withheld_is_given_up_and_the_others_are_not() {
    let origin = Origin::start();
    let limits = "[client]\nstall-timeout = \"300ms\"\n";
    let (address, _larder, _setup) = plain(&origin.url(""), limits);
    run(async {
        let client = Client::plain(address).await;
        let get = |path: &str| Request::get(format!("http://a{path}")).body(()).unwrap();
        // In progress all the time.
        let gated = "/gated?size=1000&gate=end&cc=no-store";
        let (gated, _) = client.request(get(gated), true).await;
        let post = || Request::post("http://a/form").body(()).unwrap();
        // One that sends nothing, and one that stops in the middle.
        let (silent, _kept) = client.request(post(), false).await;
        let (stopped, mut sink) = client.request(post(), false).await;
        sink.send_data(Bytes::from_static(b"half"), false).unwrap();
        for withheld in [silent, stopped] {
            let (status, _, body) = answer(withheld).await;
            assert_eq!(status, 408);
            assert!(body.starts_with(b"The request's body came too slowly."), "{body:?}");
        }
        origin.open("end");
        assert_eq!(answer(gated).await.2.len(), 1000);
        assert_eq!(answer(client.request(get("/page"), true).await.0).await.0, 200);
    });
    assert!(origin.requests_for("/form").is_empty(), "half a body passed for a whole one");
}

#[test]
fn what_a_client_takes_back_is_given_up() {
    let origin = Origin::start();
    let (address, larder, _setup) = plain(&origin.url(""), "");
    let target = "/page?size=1000&gate=end&cc=no-store";
    run(async {
        let client = Client::plain(address).await;
        let request = Request::get(format!("http://a{target}")).body(()).unwrap();
        let (coming, mut sink) = client.request(request, true).await;
        while origin.fetches(target) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        sink.send_reset(h2::Reason::CANCEL);
        drop(coming);
    });
    let busy = |line: &str| line.starts_with("larder_requests_total") && line.ends_with(" 1");
    let done = || larder.metrics().lines().any(busy);
    assert!(testkit::io::eventually(done), "{}", larder.metrics());
    origin.open("end");
}
