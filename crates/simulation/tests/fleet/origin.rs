//! The origin.

use std::convert::Infallible;
use std::time::Duration;

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
use tokio::time::sleep;

use crate::objects::{Facts, Objects};

/// Serves the objects for ever.
pub async fn serve(listener: Listener, objects: Objects, clock: TokioClock) {
    serve_slowly(listener, objects, clock, Duration::ZERO).await;
}

/// Serves the objects for ever, each after a delay.
pub async fn serve_slowly(
    listener: Listener,
    objects: Objects,
    clock: TokioClock,
    delay: Duration,
) {
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        let objects = objects.clone();
        spawn_local(async move {
            let service = service_fn(|request| {
                let answer = answer(&objects, clock, &request);
                async move {
                    sleep(delay).await;
                    Ok::<_, Infallible>(answer)
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

fn answer(
    objects: &Objects,
    clock: TokioClock,
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    let object: u32 = request.uri().path()[1..].parse().unwrap();
    objects.note_asked(object);
    let Facts { lifetime, strict, .. } = objects.facts(object);
    let version = objects.current(object);
    let etag = format!("\"{object}-{version}\"");
    let strict = if strict { ", must-revalidate" } else { "" };
    let answer = Response::builder()
        .header("Date", httpdate::fmt_http_date(clock.wall()))
        .header("Cache-Control", format!("max-age={}{strict}", lifetime.as_secs()))
        .header("ETag", &etag);
    let known = request.headers().get("if-none-match");
    if known.is_some_and(|known| known.as_bytes() == etag.as_bytes()) {
        return answer.status(StatusCode::NOT_MODIFIED).body(Full::default()).unwrap();
    }
    answer.body(Full::new(objects.bytes(object, version))).unwrap()
}
