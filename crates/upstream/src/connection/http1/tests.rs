//! Exchanges over a socket pair with an origin scripted by the test.

#![allow(clippy::unwrap_used)]

use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;

use crate::message::request_body::{BrokenOff, RequestBody};
use bytes::Bytes;
use http::header::HeaderMap;
use net::socket::{OtherSocket, Socket};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::net::UnixStream;
use tokio::task::yield_now;
use tokio_rustls::TlsConnector;

use super::*;
use crate::connection::request_body::ClientBody;
use crate::connection::tls_stream::TlsStream;
use crate::connection::tls_transport::TlsTransport;
use crate::settings::endpoint::Http2;
use crate::settings::tls::{Tls, TlsOptions};

const LOWER: &Spellings = &Spellings::LOWER_CASE;

/// Returns a connection and the origin's end of it.
fn connected() -> (Box<Http1>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Box::new(Http1::new(Stream::Plain(Socket::Unix(ours)), None, 8192)), theirs)
}

/// Reads a request without a body. Unread bytes would turn the close into a reset.
async fn read_request(origin: &mut UnixStream) {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        origin.read_buf(&mut text).await.unwrap();
    }
}

fn request(method: &str, path: &str) -> Box<Request<OutBody>> {
    let request = Request::builder().method(method).uri(path).header("host", "a");
    Box::new(request.body(OutBody::Empty).unwrap())
}

/// Returns a body read from a pipe, with this length or without one.
fn body(source: DuplexStream, length: Option<u64>) -> OutBody {
    struct Piped(DuplexStream, Option<u64>);
    impl http_body::Body for Piped {
        type Data = Bytes;
        type Error = BrokenOff;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, BrokenOff>>> {
            let mut piece = BytesMut::with_capacity(1000);
            let read = ready!(pin!(self.0.read_buf(&mut piece)).poll(cx)).unwrap();
            self.1 = self.1.map(|left| left - read as u64);
            Poll::Ready((read > 0).then(|| Ok(http_body::Frame::data(piece.freeze()))))
        }
        fn is_end_stream(&self) -> bool {
            self.1 == Some(0)
        }
        fn size_hint(&self) -> http_body::SizeHint {
            self.1.map_or_else(http_body::SizeHint::default, http_body::SizeHint::with_exact)
        }
    }
    OutBody::Client(ClientBody::new(RequestBody::Stream(Box::pin(Piped(source, length))), None))
}

async fn read_all(body: &mut Incoming) -> Result<(Vec<u8>, Option<HeaderMap>), Http1Error> {
    let (mut bytes, mut trailers) = (Vec::new(), None);
    while !body.is_end_stream() {
        let Some(frame) = poll_fn(|cx| body.poll_frame(cx)).await else { break };
        match frame?.into_data() {
            Ok(data) => bytes.extend_from_slice(&data),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    Ok((bytes, trailers))
}

/// Received response: status, fields, body, and whether the connection can be reused.
#[derive(Debug, PartialEq)]
struct ReceivedResponse {
    status: u16,
    fields: Vec<String>,
    body: String,
    trailers: usize,
    again: bool,
}

/// Sends a request. The origin sends `answer` in pieces of `size` bytes, and then closes the
/// connection if `closes`. An error is returned by name.
async fn ask(
    method: &str,
    answer: &[u8],
    size: usize,
    closes: bool,
) -> Result<ReceivedResponse, String> {
    let (connection, mut origin) = connected();
    let answer = answer.to_vec();
    let origin = tokio::task::spawn_local(async move {
        read_request(&mut origin).await;
        for piece in answer.chunks(size) {
            if origin.write_all(piece).await.is_err() {
                break;
            }
            yield_now().await;
        }
        (!closes).then_some(origin)
    });
    let name = |error: &Http1Error| format!("{error:?}").split('(').next().unwrap().to_owned();
    let sent = connection.send(request(method, "/x"), LOWER, None).await;
    let (head, mut body) = sent.map_err(|broke| name(&broke.error))?.into_parts();
    let (bytes, trailers) = read_all(&mut body).await.map_err(|error| name(&error))?;
    let _open = origin.await.unwrap();
    let fields = head.headers.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap()));
    Ok(ReceivedResponse {
        status: head.status.as_u16(),
        fields: fields.collect(),
        body: String::from_utf8(bytes).unwrap(),
        trailers: trailers.map_or(0, |fields| fields.len()),
        again: body
            .take_connection()
            .is_some_and(|mut connection| connection.unread() == Unread::Nothing),
    })
}

const PLAIN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
    3\r\nhel\r\n2;x\r\nlo\r\n0\r\n\r\n";
const TRAILED: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\
    Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\nZ: 1\r\n\r\n";
const OPEN_ENDED: &[u8] = b"HTTP/1.0 200 OK\r\n\r\nhello";
const ONE_ZERO: &[u8] =
    b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 5\r\n\r\nhello";

#[tokio::test(flavor = "local")]
async fn a_response_is_the_same_in_any_pieces() {
    for (answer, trailers, closes) in [
        (PLAIN, 0, false),
        (CHUNKED, 0, false),
        (TRAILED, 2, false),
        (OPEN_ENDED, 0, true),
        (ONE_ZERO, 0, false),
    ] {
        for size in 1..=answer.len() {
            let received = ask("GET", answer, size, closes).await.unwrap();
            let text = String::from_utf8_lossy(answer);
            assert_eq!(
                (received.status, received.body.as_str()),
                (200, "hello"),
                "{text} by {size}"
            );
            assert_eq!(
                (received.trailers, received.again),
                (trailers, !closes),
                "{text} by {size}"
            );
        }
    }
    let received = ask("GET", PLAIN, 1000, false).await.unwrap();
    assert_eq!(received.fields, ["content-length: 5", "x: y"]);
}

#[tokio::test(flavor = "local")]
async fn a_truncated_response_is_not_whole() {
    for answer in [PLAIN, CHUNKED, TRAILED, ONE_ZERO] {
        for length in 0..answer.len() {
            let received = ask("GET", &answer[..length], 7, true).await;
            let text = String::from_utf8_lossy(&answer[..length]);
            assert_eq!(received.unwrap_err(), "Closed", "{text}");
        }
    }
    let head = OPEN_ENDED.len() - 5;
    for length in 0..head {
        assert!(ask("GET", &OPEN_ENDED[..length], 7, true).await.is_err());
    }
}

/// Reads a body to its end or its error, and returns the bytes before it.
async fn read_until_error(body: &mut Incoming) -> (String, Option<Http1Error>) {
    let mut text = String::new();
    while let Some(frame) = poll_fn(|cx| body.poll_frame(cx)).await {
        match frame {
            Ok(frame) => text += std::str::from_utf8(frame.data_ref().unwrap()).unwrap(),
            Err(error) => return (text, Some(error)),
        }
    }
    (text, None)
}

#[tokio::test(flavor = "local")]
async fn bytes_before_a_break_are_read_before_the_error() {
    for (frame, cut) in [
        ("Content-Length: 9\r\n\r\n", "hello"),
        ("Transfer-Encoding: chunked\r\n\r\n", "9\r\nhello"),
        ("Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello"),
        ("Transfer-Encoding: chunked\r\n\r\n", "2\r\nhe\r\n3\r\nllo\r\n"),
        ("Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\nwrong"),
        ("Transfer-Encoding: chunked\r\n\r\n", "5\r\nhellowrong"),
        ("Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\n:path: /\r\n\r\n"),
    ] {
        let (connection, mut origin) = connected();
        origin.write_all(format!("HTTP/1.1 200 OK\r\n{frame}{cut}").as_bytes()).await.unwrap();
        let sent = connection.send(request("GET", "/"), LOWER, None);
        let (sent, ()) = tokio::join!(sent, async { read_request(&mut origin).await });
        drop(origin);
        let Ok(response) = sent else { panic!("no answer") };
        let (text, error) = read_until_error(&mut response.into_body()).await;
        assert!(text == "hello" && error.is_some(), "{cut:?}: {text:?}, {error:?}");
    }
}

#[tokio::test(flavor = "local")]
async fn bytes_decrypted_before_an_error_are_read_first() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello";
    let (connection, mut origin) = connected_in_tls().await;
    origin.write_all(answer.as_bytes()).await.unwrap();
    // An invalid record after the one with the response.
    origin.get_mut().0.write_all(&[23, 3, 3, 0, 20, 0, 0, 0]).await.unwrap();
    origin.get_mut().0.write_all(&[0; 17]).await.unwrap();
    let Ok(response) = connection.send(request("GET", "/"), LOWER, None).await else {
        panic!("no answer")
    };
    let (text, error) = read_until_error(&mut response.into_body()).await;
    assert!(text == "hello" && matches!(error, Some(Http1Error::Io(_))), "{text:?}, {error:?}");
}

#[tokio::test(flavor = "local")]
async fn field_names_keep_their_spelling_both_ways() {
    let (connection, mut origin) = connected();
    let (mut source, sink) = tokio::io::duplex(10);
    let mut asked = request("POST", "/");
    *asked.body_mut() = body(sink, Some(1));
    source.write_all(b"x").await.unwrap();
    let spellings = Spellings::of(["HOST", "Content-length"].into_iter());
    origin.write_all(b"HTTP/1.1 204 No\r\nX-One: a\r\nvia: b\r\n\r\n").await.unwrap();
    let Ok(response) = connection.send(asked, &spellings, None).await else { panic!("no answer") };
    let mut incoming = response.into_body();
    assert_eq!(format!("{:?}", incoming.take_spellings()), r#"["X-One", "via"]"#);
    drop(incoming);
    let mut text = String::new();
    origin.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "POST / HTTP/1.1\r\nHOST: a\r\nContent-length: 1\r\n\r\nx");
}

#[tokio::test(flavor = "local")]
async fn a_connection_is_reused_only_after_unambiguous_messages() {
    let again = async |method: &str, answer: &str, closes: bool| {
        ask(method, answer.as_bytes(), 1000, closes).await.unwrap().again
    };
    assert!(again("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false).await);
    for status in ["204 No Content", "304 Not Modified"] {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n");
        assert!(again("GET", &answer, false).await, "{status}");
    }
    assert!(!again("GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", false).await);
    assert!(!again("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", false).await);
    assert!(!again("GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", true).await);
    for option in ["close", "x, Close", "keep-alive\r\nConnection: close"] {
        let answer =
            format!("HTTP/1.1 200 OK\r\nConnection: {option}\r\nContent-Length: 0\r\n\r\n");
        assert!(!again("GET", &answer, false).await, "{option}");
    }
    assert!(!again("GET", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false).await);
    let (mut idle, mut origin) = connected();
    assert_eq!(idle.unread(), Unread::Nothing);
    origin.write_all(b"x").await.unwrap();
    // The runtime has not polled the socket since.
    assert_eq!(idle.unread(), Unread::Bytes);
    let (mut idle, origin) = connected();
    drop(origin);
    assert_eq!(idle.unread(), Unread::End);
}

#[tokio::test(flavor = "local")]
async fn ambiguous_responses_are_errors() {
    for fields in [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: +5",
        "Content-Length: 5x",
        "Content-Length:",
        "Content-Length: 99999999999999999999999",
        "Content-Length : 5",
        " Content-Length: 5",
        "X: y\r\n z",
        "X Y: z",
        "X: \0",
        "X",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nhello");
        for size in [1, 9, 1000] {
            let received = ask("GET", answer.as_bytes(), size, false).await;
            assert_eq!(received, Err("Malformed".to_owned()), "{fields:?} by {size}");
        }
    }
    for head in [
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked",
        "HTTP/1.1 099 OK",
        "HTTP/1.1 20 OK",
        "HTTP/2 200 OK",
        "SPAM/1.0 hello",
        "SSH-2.0-OpenSSH_9.6",
    ] {
        let answer = format!("{head}\r\n\r\n");
        let received = ask("GET", answer.as_bytes(), 1000, true).await;
        assert_eq!(received, Err("Malformed".to_owned()), "{head:?}");
    }
    let twice = "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(ask("GET", twice.as_bytes(), 9, false).await.unwrap().body, "hello");
}

#[tokio::test(flavor = "local")]
async fn response_heads_are_bounded() {
    let long = |n: usize| format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(n));
    let many = |n: usize| format!("HTTP/1.1 204 OK\r\n{}\r\n", "a: b\r\n".repeat(n));
    for size in [100, 100_000] {
        assert_eq!(ask("HEAD", long(8000).as_bytes(), size, true).await.unwrap().status, 200);
        for answer in [long(8192), long(100_000), "HTTP/1.1 200 ".repeat(2000)] {
            let received = ask("HEAD", answer.as_bytes(), size, true).await;
            let error = received.unwrap_err();
            assert!(["HeadTooLarge", "Malformed"].contains(&error.as_str()), "{error}");
        }
        assert_eq!(ask("GET", many(500).as_bytes(), size, true).await.unwrap().fields.len(), 500);
    }
}

#[tokio::test(flavor = "local")]
async fn interim_responses_are_reported_and_a_switch_keeps_later_bytes() {
    let (connection, mut origin) = connected();
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(3);
    let answer = format!("{hints}HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nearly");
    origin.write_all(answer.as_bytes()).await.unwrap();
    let interim = Arc::new(Informational::default());
    let Ok(response) = connection.send(request("GET", "/"), LOWER, Some(&interim)).await else {
        panic!()
    };
    assert_eq!(response.status(), 101);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        let Poll::Ready(head) = interim.poll_head(&mut cx) else { panic!("too few") };
        assert_eq!(head.headers()["link"], "</a>");
    }
    assert!(interim.poll_head(&mut cx).is_pending());
    let mut switched = response.into_body().into_switched().unwrap();
    origin.write_all(b", late").await.unwrap();
    read_request(&mut origin).await;
    drop(origin);
    let mut text = String::new();
    switched.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "early, late");
}

/// Sends this request, and returns the bytes that the origin reads.
async fn written(request: Box<Request<OutBody>>) -> String {
    let (connection, mut origin) = connected();
    let reading = tokio::task::spawn_local(async move {
        let mut text = Vec::new();
        let mut piece = [0; 1000];
        let pause = std::time::Duration::from_millis(30);
        while let Ok(Ok(read @ 1..)) = tokio::time::timeout(pause, origin.read(&mut piece)).await {
            text.extend_from_slice(&piece[..read]);
        }
        origin.write_all(b"HTTP/1.1 204 No\r\n\r\n").await.unwrap();
        String::from_utf8(text).unwrap()
    });
    let Ok(response) = connection.send(request, LOWER, None).await else { panic!("no answer") };
    assert!(response.into_body().take_connection().is_some());
    reading.await.unwrap()
}

#[tokio::test(flavor = "local")]
async fn requests_are_written_by_their_framing() {
    let host = "host: a\r\n";
    assert_eq!(written(request("GET", "/x?y")).await, format!("GET /x?y HTTP/1.1\r\n{host}\r\n"));
    assert_eq!(written(request("OPTIONS", "*")).await, format!("OPTIONS * HTTP/1.1\r\n{host}\r\n"));
    let with = async |length: Option<u64>, text: &'static str| {
        let (mut source, sink) = tokio::io::duplex(100);
        let mut request = request("POST", "/");
        *request.body_mut() = body(sink, length);
        tokio::task::spawn_local(async move {
            for byte in text.bytes() {
                source.write_all(&[byte]).await.unwrap();
                yield_now().await;
            }
        });
        written(request).await
    };
    let head = format!("POST / HTTP/1.1\r\n{host}");
    assert_eq!(with(Some(3), "abc").await, format!("{head}content-length: 3\r\n\r\nabc"));
    let chunks = with(None, "ab").await;
    let (text, sizes) = chunks.strip_prefix(&head).unwrap().split_once("\r\n\r\n").unwrap();
    assert_eq!(text, "transfer-encoding: chunked");
    assert!(sizes == "1\r\na\r\n1\r\nb\r\n0\r\n\r\n" || sizes == "2\r\nab\r\n0\r\n\r\n", "{sizes}");
    assert_eq!(with(None, "").await, format!("{head}transfer-encoding: chunked\r\n\r\n0\r\n\r\n"));
}

#[tokio::test(flavor = "local")]
async fn a_response_may_precede_the_end_of_the_request() {
    let (connection, mut origin) = connected();
    let (mut source, sink) = tokio::io::duplex(1 << 20);
    let mut request = request("POST", "/");
    *request.body_mut() = body(sink, Some(3_000_000));
    origin.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe").await.unwrap();
    let Ok(response) = connection.send(request, LOWER, None).await else { panic!("no answer") };
    let mut incoming = response.into_body();
    // Sending goes on although nothing reads the response.
    let sending = tokio::task::spawn_local(async move {
        source.write_all(&vec![b'x'; 3_000_000]).await.unwrap();
    });
    let (mut piece, mut read) = (vec![0; 1 << 16], 0);
    while read < 3_000_000 {
        read += origin.read(&mut piece).await.unwrap();
    }
    sending.await.unwrap();
    origin.write_all(b"llo").await.unwrap();
    assert_eq!(read_all(&mut incoming).await.unwrap().0, b"hello");
    assert!(incoming.take_connection().is_none());
}

#[tokio::test(flavor = "local")]
async fn a_response_before_a_close_is_read_and_half_a_body_is_an_error() {
    let (connection, mut origin) = connected();
    let (mut source, sink) = tokio::io::duplex(1 << 20);
    let mut long = request("POST", "/");
    *long.body_mut() = body(sink, Some(1 << 24));
    tokio::task::spawn_local(async move {
        let _ = source.write_all(&vec![b'x'; 1 << 24]).await;
    });
    let answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
    origin.write_all(answer).await.unwrap();
    let origin = origin.into_std().unwrap();
    origin.shutdown(std::net::Shutdown::Both).unwrap();
    let Ok(response) = connection.send(long, LOWER, None).await else { panic!("no answer") };
    assert_eq!(response.status(), 413);
    let (connection, _origin) = connected();
    let (mut source, sink) = tokio::io::duplex(100);
    let mut short = request("POST", "/");
    *short.body_mut() = body(sink, Some(5));
    source.write_all(b"abc").await.unwrap();
    drop(source);
    let Err(broke) = connection.send(short, LOWER, None).await else { panic!("it was whole") };
    assert!(matches!(broke.error, Http1Error::RequestBody) && broke.request.is_none());
    // A body that broke off before anything was sent.
    let (connection, mut origin) = connected();
    let (source, sink) = tokio::io::duplex(100);
    let mut none = request("POST", "/");
    *none.body_mut() = body(sink, Some(5));
    drop(source);
    let Err(broke) = connection.send(none, LOWER, None).await else { panic!("it was whole") };
    assert!(matches!(broke.error, Http1Error::RequestBody) && !broke.is_unsent);
    let mut sent = Vec::new();
    origin.read_to_end(&mut sent).await.unwrap();
    assert!(sent.is_empty(), "{sent:?}");
    let (connection, origin) = connected();
    drop(origin);
    let Err(broke) = connection.send(request("GET", "/"), LOWER, None).await else {
        panic!("answered")
    };
    assert!(broke.is_unsent && broke.request.is_some() && broke.error.is_end());
}

#[tokio::test(flavor = "local")]
async fn a_buffer_is_reused_once_released() {
    let (mut connection, mut origin) = connected();
    let mut places = Vec::new();
    for _ in 0..3 {
        origin.write_all(PLAIN).await.unwrap();
        let Ok(response) = connection.send(request("GET", "/"), LOWER, None).await else {
            panic!()
        };
        let (head, mut body) = response.into_parts();
        assert_eq!(read_all(&mut body).await.unwrap().0, b"hello");
        drop(head);
        connection = body.take_connection().unwrap();
        connection.input.reserve(FIRST_READ);
        places.push(connection.input.as_ptr());
    }
    assert!(places.iter().all(|place| *place == places[0]));
}

/// Sends a request with two fields, to which the origin responds with `answer`. Returns the
/// failure.
async fn broke(answer: &[u8]) -> FailedRequest {
    let (connection, mut origin) = connected();
    let mut asked = request("GET", "/x");
    asked.headers_mut().insert("range", "bytes=1-".parse().unwrap());
    let sending = connection.send(asked, LOWER, None);
    let answering = async {
        read_request(&mut origin).await;
        origin.write_all(answer).await.unwrap();
        drop(origin);
    };
    let (Err(broke), ()) = tokio::join!(sending, answering) else { panic!("it was answered") };
    broke
}

#[tokio::test(flavor = "local")]
async fn a_request_without_a_response_keeps_its_fields() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    for (answer, error) in [
        (hints.to_owned(), "Closed"),
        (format!("{hints}{hints}HTTP/1.1 200"), "Closed"),
        ("HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5, 6\r\n\r\n".to_owned(), "Malformed"),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), "Malformed"),
    ] {
        let FailedRequest { request, is_unsent, error: found, .. } = broke(answer.as_bytes()).await;
        assert!(format!("{found:?}").starts_with(error) && !is_unsent, "{answer}: {found:?}");
        let request = request.unwrap();
        let fields: Vec<_> =
            request.headers().iter().map(|(n, v)| (n.as_str(), v.to_str().unwrap())).collect();
        assert_eq!(fields, [("host", "a"), ("range", "bytes=1-")], "{answer}");
    }
}

#[tokio::test(flavor = "local")]
async fn interim_responses_are_bounded() {
    let hint = "HTTP/1.1 103 Early Hints\r\n\r\n";
    for (count, ends) in [(INTERIM_MAX / hint.len(), true), (INTERIM_MAX / hint.len() + 1, false)] {
        let answer = format!("{}HTTP/1.1 204 No\r\n\r\n", hint.repeat(count));
        let received = ask("GET", answer.as_bytes(), 100_000, false).await;
        let wrong = Err("Malformed".to_owned());
        assert_eq!(received.map(|received| received.status), if ends { Ok(204) } else { wrong });
    }
}

/// Returns whether the task has used up its budget, so that a pending result may be artificial.
fn has_had_its_turn() -> bool {
    !tokio::task::coop::has_budget_remaining()
}

#[tokio::test(flavor = "local")]
async fn a_large_response_takes_turns() {
    // Together as large as one read may be.
    let chunks = "1\r\nx\r\n".repeat(2000);
    let (connection, mut origin) = connected();
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    origin.write_all(format!("{head}{chunks}0\r\n\r\n").as_bytes()).await.unwrap();
    let Ok(response) = connection.send(request("GET", "/"), LOWER, None).await else { panic!() };
    let mut body = response.into_body();
    let (mut frames, mut turns) = (0, 0);
    while !body.is_end_stream() {
        yield_now().await;
        poll_fn(|cx| {
            let mut of_turn = 0;
            while !body.is_end_stream()
                && let Poll::Ready(frame) = body.poll_frame(cx)
            {
                frame.unwrap().unwrap();
                of_turn += 1;
            }
            assert!(of_turn <= 128 && (body.is_end_stream() || has_had_its_turn()), "{of_turn}");
            (frames, turns) = (frames + of_turn, turns + 1);
            Poll::Ready(())
        })
        .await;
    }
    assert!(frames == 2000 && turns >= 15, "{frames} in {turns} turns");
}

#[tokio::test(flavor = "local")]
async fn a_task_without_budget_detects_a_closed_connection() {
    let (mut idle, mut origin) = connected();
    let (mut other, _open) = connected();
    origin.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    while !has_had_its_turn() {
        consume_budget().await;
    }
    assert_eq!((idle.unread(), other.unread()), (Unread::Bytes, Unread::Nothing));
    assert!(has_had_its_turn());
}

/// Returns a connection with TLS and the origin's end of it.
async fn connected_in_tls() -> (Box<Http1>, tokio_rustls::server::TlsStream<UnixStream>) {
    let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], made.signing_key.into())
        .unwrap();
    let options = TlsOptions { unverified: true, ..TlsOptions::default() };
    let ours = TlsConnector::from(Tls::new(options, Http2::Off).config().unwrap());
    let (near, far) = UnixStream::pair().unwrap();
    let near = TlsTransport::new(Socket::Unix(near));
    let connecting = ours.connect("a.example".try_into().unwrap(), near);
    let accepting = tokio_rustls::TlsAcceptor::from(Arc::new(config)).accept(far);
    let (ours, theirs) = tokio::try_join!(connecting, accepting).unwrap();
    (Box::new(Http1::new(Stream::Tls(Box::new(TlsStream::new(ours))), None, 8192)), theirs)
}

#[tokio::test(flavor = "local")]
async fn bytes_decrypted_after_a_response_are_not_the_next_one() {
    // Bytes after the response are found whether it fills the buffer exactly or leaves room.
    for total in [1000, FIRST_READ - 1, FIRST_READ, FIRST_READ + 1] {
        for has_more in [false, true] {
            let (connection, mut origin) = connected_in_tls().await;
            let frame =
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0000\r\n\r\n0\r\n\r\n";
            let size = total - frame.len();
            let body = format!("{size:04x}\r\n{}\r\n0", "x".repeat(size));
            let answer = frame.replace("0000\r\n\r\n0", &body);
            assert_eq!(answer.len(), total);
            let behind = if has_more { "HTTP/1.1 200 OK\r\n\r\nlies" } else { "" };
            origin.write_all(format!("{answer}{behind}").as_bytes()).await.unwrap();
            let sent = connection.send(request("GET", "/"), LOWER, None).await;
            let Ok(response) = sent else { panic!("no answer") };
            let mut body = response.into_body();
            assert_eq!(read_all(&mut body).await.unwrap().0.len(), size);
            let again =
                body.take_connection().is_some_and(|mut idle| idle.unread() == Unread::Nothing);
            assert_eq!(again, !has_more, "{total} bytes");
        }
    }
}

#[tokio::test(flavor = "local")]
async fn an_idle_tls_connection_accepts_tickets_and_keys_but_no_data() {
    let (mut idle, mut origin) = connected_in_tls().await;
    // The session tickets of the handshake have arrived by now.
    assert_eq!(idle.unread(), Unread::Nothing);
    origin.get_mut().1.refresh_traffic_keys().unwrap();
    origin.flush().await.unwrap();
    assert_eq!(idle.unread(), Unread::Nothing);
    // The header of a record, without the rest.
    origin.get_mut().0.write_all(&[23, 3, 3, 0, 100]).await.unwrap();
    assert_eq!(idle.unread(), Unread::Bytes);
    let (mut idle, mut origin) = connected_in_tls().await;
    origin.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
    assert_eq!(idle.unread(), Unread::Bytes);
    let (mut idle, mut origin) = connected_in_tls().await;
    origin.shutdown().await.unwrap();
    assert_eq!(idle.unread(), Unread::End);
    let (mut idle, origin) = connected_in_tls().await;
    drop(origin);
    assert_eq!(idle.unread(), Unread::End);
}

/// A socket whose peer has acknowledged nothing.
struct Unacknowledged(DuplexStream);

impl AsyncRead for Unacknowledged {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Unacknowledged {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl OtherSocket for Unacknowledged {
    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn has_unacknowledged(&self) -> bool {
        true
    }

    fn reset_at_close(&self) {}

    fn peer_addr(&self) -> std::net::SocketAddr {
        ([127, 0, 0, 1], 80).into()
    }
}

#[tokio::test(flavor = "local")]
async fn premature_bytes_are_not_a_response() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
    let ask = async |request: Box<Request<OutBody>>, last: Option<ResponseKind>| {
        let (near, mut far) = tokio::io::duplex(1000);
        let socket = Socket::Other(Box::new(Unacknowledged(near)));
        let mut connection = Box::new(Http1::new(Stream::Plain(socket), None, 8192));
        connection.last = last;
        far.write_all(answer).await.unwrap();
        let sent = connection.send(request, LOWER, None).await;
        sent.map(drop).map_err(|broke| (format!("{:?}", broke.error), broke.overran))
    };
    let last = Some(ResponseKind::Head);
    let premature = Err(("Premature".to_owned(), Some(ResponseKind::Framed)));
    assert_eq!(ask(request("GET", "/"), last).await, premature);
    // A new connection has no earlier response, and a request with a body may be answered early.
    assert_eq!(ask(request("GET", "/"), None).await, Ok(()));
    let (_source, sink) = tokio::io::duplex(10);
    let mut post = request("POST", "/");
    *post.body_mut() = body(sink, Some(5));
    assert_eq!(ask(post, last).await, Ok(()));
}

#[tokio::test(flavor = "local")]
async fn an_idle_connection_that_timed_out_has_ended() {
    for (text, unread) in [
        ("HTTP/1.1 408 Request Timeout\r\n\r\n", Unread::End),
        ("HTTP/1.0 408 x\r\n\r\n", Unread::End),
        ("HTTP/1.1 200 OK\r\n\r\n", Unread::Bytes),
        ("\r\n", Unread::Bytes),
    ] {
        let (mut idle, mut origin) = connected();
        origin.write_all(text.as_bytes()).await.unwrap();
        assert_eq!(idle.unread(), unread, "{text:?}");
        let (mut idle, mut origin) = connected_in_tls().await;
        origin.write_all(text.as_bytes()).await.unwrap();
        assert_eq!(idle.unread(), unread, "{text:?}");
    }
}
