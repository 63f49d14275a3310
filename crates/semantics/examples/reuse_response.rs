//! Decides whether a response may be stored, and how it may be used one and two minutes later.

#![allow(clippy::print_stdout)]

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use larder_semantics::facts::TargetFacts;
use larder_semantics::{
    ExchangeTimes, NotStorable, Packed, RequestFacts, Reuse, Settings, Time, reuse, storability,
};

fn main() -> Result<(), NotStorable> {
    let settings = Settings::default();
    let request = RequestFacts::of(&Method::GET, &HeaderMap::new());
    let mut response = HeaderMap::new();
    response.insert("cache-control", HeaderValue::from_static("max-age=90"));
    response.insert("etag", HeaderValue::from_static("\"v1\""));

    let received = Time::from_unix(1_800_000_000);
    let times = ExchangeTimes { requested: received, received };
    storability::judge(&request, StatusCode::OK, &response, times, &settings)?;

    // All that later decisions need of the response, in 40 bytes.
    let target = TargetFacts::of("/index.html");
    let stored = Packed::of(target, StatusCode::OK, &response, times, &settings);
    for minute in [1, 2] {
        let now = Time::from_unix(received.unix() + minute * 60);
        match reuse::decide(&stored, |_| false, &request, now, &settings) {
            Reuse::Fresh { age } => println!("minute {minute}: a hit, Age: {}", age.get()),
            other => println!("minute {minute}: {other:?}"),
        }
    }
    Ok(())
}
