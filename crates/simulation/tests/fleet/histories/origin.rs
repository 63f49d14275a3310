//! The origin of a history: it answers, hangs or fails as it is told to.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proxy::TokioClock;
use sim::network::Listener;
use tokio::task::spawn_local;

use crate::histories::truth::{Facts, Truth};

/// How the origin is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    #[default]
    Well,
    /// What is asked now is never answered.
    Hangs,
    /// It answers 503.
    Fails,
}

/// Serves the objects for ever.
pub async fn serve(
    listener: Listener,
    truth: Rc<Truth>,
    clock: TokioClock,
    health: Rc<Cell<Health>>,
) {
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        let (truth, health) = (truth.clone(), health.clone());
        spawn_local(async move {
            let service = service_fn(|request| {
                let (truth, health) = (truth.clone(), health.get());
                async move {
                    match health {
                        Health::Hangs => std::future::pending().await,
                        Health::Fails => Ok::<_, Infallible>(failed()),
                        Health::Well => Ok(answer(&truth, clock, &request)),
                    }
                }
            });
            let mut http = http1::Builder::new();
            // The library would ask the system's clock.
            http.auto_date_header(false);
            // A connection that breaks off is none of its business.
            let _ = http.serve_connection(TokioIo::new(connection), service).await;
        });
    }
}

fn failed() -> Response<Full<Bytes>> {
    let answer = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
    answer.header("Cache-Control", "no-store").body(Full::default()).unwrap()
}

fn answer(truth: &Truth, clock: TokioClock, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    assert!(!request.headers().contains_key("larder-fleet"), "{request:?}");
    assert!(!request.headers().contains_key("larder-purges"), "{request:?}");
    let object: u32 = request.uri().path().rsplit('/').next().unwrap().parse().unwrap();
    truth.note_asked(object);
    let Facts { lifetime, strict } = truth.facts(object);
    let version = truth.current(object);
    let etag = Truth::tag(object, version);
    let strict = if strict { ", must-revalidate" } else { "" };
    let answer = Response::builder()
        .header("Date", httpdate::fmt_http_date(clock.wall()))
        .header("Cache-Control", format!("max-age={}{strict}", lifetime.as_secs()))
        .header("Cache-Tag", Truth::names(object).2)
        .header("ETag", &etag);
    let field = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    if field("if-none-match") == Some(&etag) {
        return answer.status(StatusCode::NOT_MODIFIED).body(Full::default()).unwrap();
    }
    let bytes = Truth::bytes(object, version);
    let range = field("range").filter(|_| field("if-range").is_none_or(|tag| tag == etag));
    let range = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    match range.and_then(|(from, to)| Some((from.parse::<usize>().ok()?, to.parse().ok()?))) {
        Some((from, to)) if from <= to && to < bytes.len() => answer
            .status(StatusCode::PARTIAL_CONTENT)
            .header("Content-Range", format!("bytes {from}-{to}/{}", bytes.len()))
            .body(Full::new(bytes.slice(from..=to)))
            .unwrap(),
        _ => answer.body(Full::new(bytes)).unwrap(),
    }
}
