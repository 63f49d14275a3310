//! The origin.

use std::time::Duration;

use proxy::TokioClock;
use sim::network::Listener;
use testkit::origin::{Received, Then, response, serve_connection};
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
            let respond = async |request: Received| {
                let bytes = answer(&objects, clock, &request);
                sleep(delay).await;
                (bytes, Then::Stay)
            };
            // The network may break the connection.
            let _ = serve_connection(connection, respond).await;
        });
    }
}

fn answer(objects: &Objects, clock: TokioClock, request: &Received) -> Vec<u8> {
    let object: u32 = request.path[1..].parse().unwrap();
    objects.note_asked(object);
    let Facts { lifetime, strict, .. } = objects.facts(object);
    let version = objects.current(object);
    let etag = format!("\"{object}-{version}\"");
    let strict = if strict { ", must-revalidate" } else { "" };
    let fields = format!(
        "Date: {}\r\nCache-Control: max-age={}{strict}\r\nETag: {etag}\r\n",
        httpdate::fmt_http_date(clock.wall()),
        lifetime.as_secs()
    );
    if request.head.get("if-none-match") == Some(&etag) {
        return response(304, &fields, b"");
    }
    response(200, &fields, &objects.bytes(object, version))
}
