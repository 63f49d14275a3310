//! The origin of a history: it answers, hangs or fails as it is told to.

use std::cell::Cell;
use std::rc::Rc;

use proxy::TokioClock;
use sim::network::Listener;
use testkit::origin::{Received, Then, response, serve_connection};
use tokio::task::spawn_local;

use crate::histories::truth::{Facts, Truth};

/// How the origin is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    #[default]
    Well,
    /// It never answers requests that arrive now.
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
            let respond = async |request: Received| {
                let bytes = match health.get() {
                    Health::Hangs => std::future::pending().await,
                    Health::Fails => response(503, "Cache-Control: no-store\r\n", b""),
                    Health::Well => answer(&truth, clock, &request),
                };
                (bytes, Then::Stay)
            };
            // The network may break the connection.
            let _ = serve_connection(connection, respond).await;
        });
    }
}

fn answer(truth: &Truth, clock: TokioClock, request: &Received) -> Vec<u8> {
    let field = |name: &str| request.head.get(name);
    assert!(field("larder-fleet").is_none() && field("larder-purges").is_none(), "{request:?}");
    let object: u32 = request.path.rsplit('/').next().unwrap().parse().unwrap();
    truth.note_asked(object);
    let Facts { lifetime, strict } = truth.facts(object);
    let version = truth.current(object);
    let etag = Truth::tag(object, version);
    let strict = if strict { ", must-revalidate" } else { "" };
    let fields = format!(
        "Date: {}\r\nCache-Control: max-age={}{strict}\r\nCache-Tag: {}\r\nETag: {etag}\r\n",
        httpdate::fmt_http_date(clock.wall()),
        lifetime.as_secs(),
        Truth::names(object).2
    );
    if field("if-none-match") == Some(&etag) {
        return response(304, &fields, b"");
    }
    let bytes = Truth::bytes(object, version);
    let range = field("range").filter(|_| field("if-range").is_none_or(|tag| tag == etag));
    let range = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    match range.and_then(|(from, to)| Some((from.parse::<usize>().ok()?, to.parse().ok()?))) {
        Some((from, to)) if from <= to && to < bytes.len() => {
            let range = format!("Content-Range: bytes {from}-{to}/{}\r\n", bytes.len());
            response(206, &(fields + &range), &bytes[from..=to])
        }
        _ => response(200, &fields, &bytes),
    }
}
