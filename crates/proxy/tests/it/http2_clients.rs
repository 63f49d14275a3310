//! Clients that speak HTTP/2: the ends of responses, trailers, and cancelled requests.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request, StatusCode};
use testkit::origin::{Origin, Then, ok};

use crate::rig::{Rig, wait_until};

/// Runs `talk` on one connection.
pub fn on_connection<T>(to: SocketAddr, talk: impl AsyncFnOnce(SendRequest<Bytes>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(to).await.unwrap();
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        talk(sender).await
    })
}

fn request(method: Method, path: &str, fields: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(method).uri(format!("http://a.example{path}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// Returns the whole response to a request, or the error.
async fn answer(
    sender: &mut SendRequest<Bytes>,
    request: Request<()>,
) -> Result<(StatusCode, Vec<u8>, Option<HeaderMap>), h2::Error> {
    let (response, _) = sender.send_request(request, true)?;
    let (head, mut body) = response.await?.into_parts();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        bytes.extend_from_slice(&data);
    }
    Ok((head.status, bytes, body.trailers().await?))
}

#[test]
fn a_response_without_a_body_ends_with_its_head() {
    let origin = Origin::always("HTTP/1.1 204 No Content\r\n\r\n");
    let rig = Rig::h2c(origin.address());
    on_connection(rig.address, async |mut sender| {
        let only_stored = request(Method::HEAD, "/a", &[("cache-control", "only-if-cached")]);
        for (asked, status) in [(only_stored, 504), (request(Method::GET, "/b", &[]), 204)] {
            let (response, _) = sender.send_request(asked, true).unwrap();
            let response = response.await.unwrap();
            assert_eq!(response.status(), status);
            assert!(response.body().is_end_stream(), "{status}");
        }
    });
}

#[test]
fn forbidden_trailers_are_dropped() {
    let text = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n\
        4\r\nbody\r\n0\r\nConnection: x\r\nContent-Length: 9\r\nSet-Cookie: a\r\n";
    for (more, expected) in [("", None), ("X-Sum: 4\r\n", Some("4"))] {
        let origin = Origin::always(format!("{text}{more}\r\n"));
        let rig = Rig::h2c(origin.address());
        let asked = request(Method::GET, "/", &[("te", "trailers")]);
        let told = on_connection(rig.address, async |mut sender| answer(&mut sender, asked).await);
        let (status, body, trailers) = told.unwrap();
        assert_eq!((status.as_u16(), &*body), (200, &b"body"[..]));
        let trailers = trailers.unwrap_or_default();
        let sum = trailers.get("x-sum").map(|sum| sum.to_str().unwrap());
        assert_eq!((trailers.len(), sum), (usize::from(expected.is_some()), expected));
    }
}

/// Starts an origin that responds to a POST when the test says so.
fn slow_to_write() -> (Origin, Sender<()>) {
    let (tell, told): (_, Receiver<()>) = channel();
    let told = Arc::new(Mutex::new(told));
    let origin = Origin::scripted(move |asked, stream| {
        if asked.method == "POST" {
            told.lock().unwrap().recv().unwrap();
        }
        let _ = stream.write_all(ok("Cache-Control: max-age=600\r\n", "yes").as_bytes());
        Then::Stay
    });
    (origin, tell)
}

#[test]
fn a_write_of_a_disconnected_client_still_invalidates() {
    let (origin, tell) = slow_to_write();
    let rig = Rig::h2c(origin.address());
    let ask = || rig.client().send("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").answer().detail();
    let has_come = |count| origin.await_count(count);
    let is_fetched_again = || wait_until("it is fetched again", || ask() == "MISS");
    assert_eq!([ask(), ask()], ["MISS", "HIT_RAM"]);
    // A client that cancels its request in HTTP/2.
    on_connection(rig.address, async |mut sender| {
        let (response, _) = sender.send_request(request(Method::POST, "/x", &[]), true).unwrap();
        let sent = tokio::time::timeout(Duration::from_millis(100), response).await;
        assert!(sent.is_err(), "it is taken back");
        tokio::task::spawn_blocking(|| sleep(Duration::from_millis(50))).await.unwrap();
    });
    has_come(2);
    assert_eq!(ask(), "HIT_RAM");
    tell.send(()).unwrap();
    is_fetched_again();
    // A client that resets its connection in HTTP/1.
    let mut client = rig.client();
    client.send("POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nab");
    wait_until("the request has come", || origin.requests().last().unwrap().method == "POST");
    client.reset();
    sleep(Duration::from_millis(100));
    assert_eq!(ask(), "HIT_RAM");
    tell.send(()).unwrap();
    is_fetched_again();
}
