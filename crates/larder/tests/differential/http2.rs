//! HTTP/2 requests, whose responses are written as text.

use std::fmt::Write as _;
use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use tokio::net::TcpStream;

use crate::pages::ANSWERS;

/// Fields of the requests.
const FIELDS: [&[(&str, &str)]; 6] = [
    &[],
    &[("if-none-match", "\"a\"")],
    &[("range", "bytes=1-3")],
    &[("accept-encoding", "gzip, br"), ("user-agent", "u")],
    &[("cache-control", "no-cache")],
    &[("cookie", "a=b"), ("cookie", "c=d"), ("te", "trailers")],
];

/// Returns the names of the pages that [`ask`] can request.
pub fn names() -> Vec<String> {
    ANSWERS.iter().map(|(path, _)| format!("h2 {path}")).collect()
}

/// Requests page `number` in several ways on one connection, and returns the responses as text.
pub fn ask(to: SocketAddr, number: usize) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let stream = TcpStream::connect(to).await.expect("the program accepts");
        let (mut client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        let (path, _) = ANSWERS[number];
        let mut text = String::new();
        for query in ["", "?trailers"] {
            let gets = FIELDS.iter().flat_map(|fields| [("GET", *fields), ("HEAD", *fields)]);
            for (method, fields) in gets.chain([("POST", FIELDS[0])]) {
                let mut request = Request::builder().method(method);
                request = request.uri(format!("http://a.example{path}{query}"));
                for (name, value) in fields {
                    request = request.header(*name, *value);
                }
                let request = request.body(()).expect("a request");
                let answer = exchange(&mut client, request).await;
                text.push_str(&answer.unwrap_or_else(|error| format!("{error}\r\n")));
            }
        }
        text.chars().map(|c| c as u8).collect()
    })
}

/// Sends a request and returns its response.
async fn exchange(
    client: &mut SendRequest<Bytes>,
    request: Request<()>,
) -> Result<String, h2::Error> {
    std::future::poll_fn(|context| client.poll_ready(context)).await?;
    let is_post = request.method() == "POST";
    let (response, mut sending) = client.send_request(request, !is_post)?;
    if is_post {
        sending.send_data(Bytes::from_static(b"abc"), true)?;
    }
    let (head, mut stream) = response.await?.into_parts();
    let mut text = format!("HTTP/2 {}\r\n", head.status.as_u16());
    // A response in chunks gets a length if all of it has arrived by the time its head is sent.
    let has_length = head.headers.contains_key("content-length");
    fields(&head.headers, &mut text);
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        body.extend_from_slice(&data);
        stream.flow_control().release_capacity(data.len())?;
    }
    if !has_length {
        let _ = write!(text, "content-length: {}\r\n", body.len());
    }
    text.push_str("\r\n");
    text.extend(body.iter().map(|byte| char::from(*byte)));
    if let Some(trailers) = stream.trailers().await? {
        text.push_str("\r\n");
        fields(&trailers, &mut text);
    }
    text.push_str("\r\n");
    Ok(text)
}

/// Appends fields, with each byte of a value as the character of the same number. Lengths come
/// last.
fn fields(all: &HeaderMap, text: &mut String) {
    let (lengths, others): (Vec<_>, Vec<_>) =
        all.iter().partition(|(name, _)| *name == "content-length");
    for (name, value) in others.into_iter().chain(lengths) {
        let value: String = value.as_bytes().iter().map(|byte| char::from(*byte)).collect();
        let _ = write!(text, "{name}: {value}\r\n");
    }
}
