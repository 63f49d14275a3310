//! Responses whose body the kernel sends from a file.
//!
//! The file is a fake: it writes different bytes of the same length to the socket than it puts into
//! frames, so that a body shows how it was sent.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response, Version, header};
use http_body::{Body, Frame, SizeHint};
use proxy::origin::site::Source;
use upstream::connection::origin_body::OriginBody;
use upstream::connection::send_file::{SendFile, Sent};
use upstream::send::origin::{Connector, Origin, Sending};
use upstream::send::outgoing::Outgoing;
use upstream::settings::endpoint::Endpoint;

use crate::rig::{Rig, wait_until};

/// A part of a fake file.
enum Part {
    Frame(&'static str),
    /// Sent by the kernel; as a frame it is in lower case.
    Kernel(&'static str),
    Broken,
}

/// Serves `/file`, `/part` (a range of it) and `/broken`.
#[derive(Debug)]
struct Files;

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("files")
    }
}

impl Origin for Files {
    fn send<'a>(self: Arc<Self>, _: Connector<'a>, request: Outgoing<'a>) -> Sending<'a> {
        let request = request.request.unwrap();
        let path = request.uri().path();
        let end = if path == "/broken" { Part::Broken } else { Part::Frame(" end") };
        let kernel = [Part::Kernel("KERNEL "), Part::Kernel("SENDS")];
        let mut parts = VecDeque::from([Part::Frame("begin ")]);
        parts.extend(kernel.into_iter().chain([end]));
        if request.method() == Method::HEAD {
            parts.clear();
        }
        let response = Response::builder()
            .version(Version::HTTP_11)
            .header(header::CONTENT_LENGTH, "22")
            .header(header::CACHE_CONTROL, "no-store");
        let response = match path {
            "/part" => response.status(206).header(header::CONTENT_RANGE, "bytes 0-21/30"),
            _ => response,
        };
        let body = OriginBody::file(FakeFile(parts), Duration::from_secs(20));
        Box::pin(async move { Ok(response.body(body).unwrap()) })
    }

    fn endpoint(&self, _: usize) -> Option<&Endpoint> {
        None
    }
}

struct FakeFile(VecDeque<Part>);

impl SendFile for FakeFile {
    fn prefers_kernel(&mut self) -> bool {
        !self.0.is_empty()
    }

    fn poll_send(&mut self, _: &mut Context<'_>, socket: BorrowedFd<'_>) -> Poll<Sent> {
        let Some(Part::Kernel(text)) = self.0.front() else { return Poll::Ready(Sent::Frames) };
        File::from(socket.try_clone_to_owned().unwrap()).write_all(text.as_bytes()).unwrap();
        let sent = Sent::Bytes(text.len() as u64);
        self.0.pop_front();
        Poll::Ready(sent)
    }
}

impl Body for FakeFile {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.0.pop_front().map(|part| match part {
            Part::Frame(text) => Ok(Frame::data(Bytes::from_static(text.as_bytes()))),
            Part::Kernel(text) => Ok(Frame::data(text.to_lowercase().into())),
            Part::Broken => Err(io::ErrorKind::UnexpectedEof.into()),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let length = |part: &Part| match part {
            Part::Frame(text) | Part::Kernel(text) => text.len() as u64,
            Part::Broken => 4,
        };
        SizeHint::with_exact(self.0.iter().map(length).sum())
    }
}

const BY_KERNEL: &str = "begin KERNEL SENDS end";

fn rig() -> Rig {
    Rig::reverse_to(Source::Other(Arc::new(Files)), |_| ())
}

fn request(method: &str, path: &str, fields: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")
}

#[test]
fn the_kernel_sends_a_file_and_the_connection_stays_open() {
    let rig = rig();
    let mut client = rig.client();
    for (method, path, status, text) in [
        ("GET", "/file", 200, BY_KERNEL),
        ("GET", "/file", 200, BY_KERNEL),
        ("GET", "/part", 206, BY_KERNEL),
        ("HEAD", "/file", 200, ""),
        ("GET", "/file", 200, BY_KERNEL),
    ] {
        let answer = client.send(request(method, path, "")).answer_to(method);
        assert_eq!((answer.status, answer.text().as_str()), (status, text), "{method} {path}");
        assert_eq!(answer.field("connection"), None);
        assert!(answer.field("date").is_some() && answer.whole);
    }
    wait_until("all are reported", || rig.seen.outcomes.lock().unwrap().len() == 5);
    let outcomes = rig.seen.outcomes.lock().unwrap();
    let sizes: Vec<_> = outcomes.iter().map(|(_, bytes, complete)| (*bytes, *complete)).collect();
    assert_eq!(sizes, [(22, true), (22, true), (22, true), (0, true), (22, true)]);
}

#[test]
fn a_file_may_be_the_last_response() {
    let rig = rig();
    let mut client = rig.client();
    let answer = client.send(request("GET", "/file", "Connection: close\r\n")).answer();
    assert_eq!(answer.text(), BY_KERNEL);
    assert_eq!(answer.field("connection").unwrap(), "close");
    assert!(client.closed());
}

#[test]
fn the_kernel_sends_a_file_to_a_pipelining_client() {
    let rig = rig();
    let old = "GET /file HTTP/1.0\r\nHost: a.example\r\n\r\n";
    assert_eq!(rig.client().send(old).answer().text(), BY_KERNEL);
    let with_body = request("GET", "/file", "Content-Length: 1\r\n") + "x";
    assert_eq!(rig.client().send(with_body).answer().text(), BY_KERNEL);
    // The second request arrives with the first.
    let mut client = rig.client();
    client.send(request("GET", "/file", "").repeat(2));
    assert_eq!(client.answer().text(), BY_KERNEL);
    assert_eq!(client.answer().text(), BY_KERNEL);
    // A part of it does.
    let next = request("GET", "/file", "");
    let (begin, end) = next.split_at(10);
    client.send(request("GET", "/file", "") + begin);
    assert_eq!(client.answer().text(), BY_KERNEL);
    assert_eq!(client.send(end).answer().text(), BY_KERNEL);
}

#[test]
fn a_truncated_file_is_cut() {
    let rig = rig();
    let mut client = rig.client();
    let answer = client.send(request("GET", "/broken", "")).answer();
    assert_eq!((answer.text().as_str(), answer.whole), ("begin KERNEL SENDS", false));
    wait_until("it is reported", || !rig.seen.outcomes.lock().unwrap().is_empty());
    let (_, bytes, complete) = rig.seen.outcomes.lock().unwrap()[0];
    assert_eq!((bytes, complete), (18, false));
    assert_eq!(*rig.seen.refused.lock().unwrap(), [None]);
}
