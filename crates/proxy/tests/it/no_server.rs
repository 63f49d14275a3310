//! A site whose responses come from a table in memory instead of a server.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response, header};
use http_body::{Body, Frame};
use proxy::object::key::{key_prefix, primary_key};
use proxy::origin::site::Source;
use semantics::Url;
use store::Inspector;
use upstream::connection::origin_body::OriginBody;
use upstream::failure::error::{Failure, Reason};
use upstream::send::origin::{Connector, Group, Origin, Sending};
use upstream::send::outgoing::Outgoing;
use upstream::settings::endpoint::Endpoint;

use crate::rig::Rig;

/// Serves `/whole`, `/broken` (half of it) and `/grouped/GROUP/ANY` (of that group), and no other
/// path.
#[derive(Debug, Default)]
struct Table {
    asked: AtomicU32,
}

const TEXT: &str = "what is in the table";

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }
}

impl Table {
    fn answer(&self, request: &Outgoing<'_>) -> Result<Response<OriginBody>, Failure> {
        self.asked.fetch_add(1, Relaxed);
        let request = request.request.as_ref().unwrap();
        let path = request.uri().path();
        let group = path.strip_prefix("/grouped/").and_then(|rest| rest.split_once('/'));
        let whole = match path {
            "/whole" => true,
            "/broken" => false,
            _ if group.is_some() => true,
            path => {
                let cause = format!("{path} is not in it");
                return Err(Failure::Failed(Reason::Upstream, cause));
            }
        };
        let (first, second) = TEXT.split_at(TEXT.len() / 2);
        let second = if whole { Ok(second) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        let mut frames = VecDeque::from([Ok(first), second]);
        if request.method() == Method::HEAD {
            frames.clear();
        }
        let response = Response::builder()
            .header(header::CONTENT_LENGTH, TEXT.len())
            .header(header::CACHE_CONTROL, "max-age=600")
            .header(header::ETAG, "\"1\"");
        let response = match group {
            Some((group, _)) => response.extension(Group(group.into())),
            None => response,
        };
        Ok(response.body(OriginBody::stream(Frames(frames), Duration::from_secs(20))).unwrap())
    }
}

impl Origin for Table {
    fn send<'a>(self: Arc<Self>, _: Connector<'a>, request: Outgoing<'a>) -> Sending<'a> {
        Box::pin(async move { self.answer(&request) })
    }

    fn endpoint(&self, _: usize) -> Option<&Endpoint> {
        None
    }
}

struct Frames(VecDeque<io::Result<&'static str>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = self.0.pop_front();
        Poll::Ready(
            next.map(|next| next.map(|text| Frame::data(Bytes::from_static(text.as_bytes())))),
        )
    }
}

fn table() -> (Rig, Arc<Table>) {
    let table = Arc::new(Table::default());
    (Rig::reverse_to(Source::Other(table.clone()), |_| ()), table)
}

#[test]
fn an_origin_without_a_server_is_cached_like_one() {
    let (rig, table) = table();
    let mut client = rig.client();
    let mut ask = |fields: &str| {
        client.send(format!("GET /whole HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")).answer()
    };
    let first = ask("");
    assert_eq!((first.status, first.text(), first.whole), (200, TEXT.to_owned(), true));
    assert_eq!(first.detail(), "MISS");
    let again = ask("");
    assert_eq!((again.text(), again.detail()), (TEXT.to_owned(), "HIT_RAM".to_owned()));
    assert_eq!(ask("Range: bytes=5-6\r\n").text(), TEXT[5..7]);
    assert_eq!(ask("If-None-Match: \"1\"\r\n").status, 304);
    assert_eq!(table.asked.load(Relaxed), 1);
}

#[test]
fn broken_bodies_are_cut_and_failures_are_errors() {
    let (rig, table) = table();
    for n in 1..=2 {
        let answer = rig.client().send("GET /broken HTTP/1.1\r\nHost: a.example\r\n\r\n").answer();
        assert_eq!((answer.status, answer.whole), (200, false));
        // The broken response was not stored as a complete one.
        assert!(table.asked.load(Relaxed) >= n);
    }
    let none = rig.client().send("GET /none HTTP/1.1\r\nHost: a.example\r\n\r\n").answer();
    assert_eq!((none.status, none.detail()), (502, "ERROR(upstream)".to_owned()));
    assert!(!none.text().contains("/none"), "{}", none.text());
    let mut client = rig.client();
    client.send("POST /none HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(client.answer().status, 502);
}

#[test]
fn a_response_is_stored_with_the_group_it_names() {
    let (mut rig, _) = table();
    let paths = ["/grouped/a/x/1", "/grouped/b/x/1", "/grouped/a/y/1", "/whole"];
    for path in paths {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_eq!(rig.client().send(request).answer().status, 200);
    }
    rig.stop();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let [a, b, also_a, url] = runtime.block_on(async {
        let inspector = Inspector::open(&rig.device).await.unwrap();
        let mut groups = Vec::new();
        for path in paths {
            let url = Url::parse(&format!("http://a.example{path}")).unwrap();
            let key = primary_key(&key_prefix(Some("main")), &url).unwrap();
            let found = inspector.find(key.as_bytes()).await.unwrap();
            groups.push((found.unwrap().group, key.locality().group));
        }
        groups.try_into().unwrap()
    });
    assert_eq!(a.0, also_a.0);
    assert!(a.0 != b.0 && a.1 != also_a.1, "{a:?} {b:?} {also_a:?}");
    assert_eq!(url.0, url.1);
}
