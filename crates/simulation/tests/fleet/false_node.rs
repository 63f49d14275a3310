//! HTTP/1.1 of a node that is no proxy: it reads questions, and answers them as a test wants.

use bytes::Bytes;
use http::{Request, Response};
use sim::network::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Reads the next request and its body. Returns `None` at the end of the connection.
pub async fn read_question(connection: &mut Connection) -> Option<Request<()>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let mut words = lines.next().unwrap().split(' ');
    let mut request = Request::builder().method(words.next().unwrap()).uri(words.next().unwrap());
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        request = request.header(name, value.trim());
    }
    let request = request.body(()).unwrap();
    let length = request.headers().get("content-length");
    let length = length.map_or(0, |length| length.to_str().unwrap().parse().unwrap());
    connection.read_exact(&mut vec![0; length]).await.ok()?;
    Some(request)
}

/// Sends a response. `Content-Length` is added if it is missing.
pub async fn send_answer(connection: &mut Connection, answer: Response<Bytes>) {
    let (parts, body) = answer.into_parts();
    let mut head = format!("HTTP/1.1 {}\r\n", parts.status);
    for (name, value) in &parts.headers {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    if !parts.headers.contains_key("content-length") {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    let _ = connection.write_all(&[head.as_bytes(), b"\r\n", &body].concat()).await;
}
