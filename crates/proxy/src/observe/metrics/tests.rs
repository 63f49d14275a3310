//! Tests of the scrape text after known requests.

#![allow(clippy::unwrap_used)]

use net::clock::TokioClock;

use super::*;
use crate::observe::outcome::{Bypass, Denied, Error};

fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

#[test]
fn requests_by_outcome_reason_and_class() {
    let metrics = Metrics::new(2, TokioClock::system());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    metrics.request(
                        SiteSlot::NONE,
                        Outcome::HitRam,
                        200,
                        10,
                        Duration::from_micros(60),
                    );
                }
                let bypass = Outcome::Bypass(Bypass::Range);
                metrics.request(SiteSlot::NONE, bypass, 206, 7, Duration::from_secs(1000));
                metrics.request(
                    SiteSlot::NONE,
                    Outcome::Denied(Denied::Client),
                    403,
                    5,
                    Duration::ZERO,
                );
                metrics.request(SiteSlot::NONE, Outcome::Tunnel, 200, 99, Duration::from_secs(3));
            });
        }
    });
    let text = metrics.scrape(Format::OpenMetrics);
    let has = |series: &str, expected: f64| {
        assert_eq!(value(&text, series), Some(expected), "{series}\n{text}");
    };
    has("larder_requests_total{outcome=\"HIT_RAM\",status=\"2xx\"}", 400.0);
    has("larder_requests_total{outcome=\"MISS\",status=\"2xx\"}", 0.0);
    has("larder_requests_total{outcome=\"BYPASS\",reason=\"range\",status=\"2xx\"}", 4.0);
    has("larder_requests_total{outcome=\"DENIED\",reason=\"client\",status=\"4xx\"}", 4.0);
    has("larder_response_body_bytes_total{outcome=\"HIT_RAM\"}", 4000.0);
    has("larder_response_body_bytes_total{outcome=\"TUNNEL\"}", 396.0);
    let hits = "larder_request_duration_seconds_";
    has(&format!("{hits}bucket{{le=\"0.00005\",outcome=\"HIT_RAM\"}}"), 0.0);
    has(&format!("{hits}bucket{{le=\"0.0001\",outcome=\"HIT_RAM\"}}"), 400.0);
    has(&format!("{hits}bucket{{le=\"+Inf\",outcome=\"HIT_RAM\"}}"), 400.0);
    has(&format!("{hits}count{{outcome=\"HIT_RAM\"}}"), 400.0);
    has(&format!("{hits}sum{{outcome=\"HIT_RAM\"}}"), 0.024);
    has(&format!("{hits}bucket{{le=\"300.0\",outcome=\"BYPASS\"}}"), 0.0);
    has(&format!("{hits}bucket{{le=\"+Inf\",outcome=\"BYPASS\"}}"), 4.0);
    assert!(!text.contains("larder_request_duration_seconds_count{outcome=\"TUNNEL\"}"));
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn requests_and_fetches_are_counted_by_site() {
    let metrics = Metrics::new(2, TokioClock::system());
    let mut slots = SiteSlots::default();
    let [a, b] = ["a", "b"].map(|name| slots.slot(Some(name)));
    metrics.set_sites(Box::new(move || slots.clone()));
    let time = Duration::from_millis(3);
    metrics.request(a, Outcome::Miss, 200, 5, time);
    metrics.request(b, Outcome::Miss, 404, 7, time);
    metrics.request(b, Outcome::Error(Error::Connect), 502, 0, time);
    metrics.request(SiteSlot::NONE, Outcome::Miss, 200, 1, time);
    metrics.fetched(b, FetchPoint::Head, time);
    metrics.fetched(b, FetchPoint::End, 2 * time);
    let text = metrics.scrape(Format::Text);
    for (series, expected) in [
        ("larder_requests_total{outcome=\"MISS\",status=\"2xx\"}", 1.0),
        ("larder_requests_total{outcome=\"MISS\",status=\"2xx\",site=\"a\"}", 1.0),
        ("larder_requests_total{outcome=\"MISS\",status=\"4xx\",site=\"b\"}", 1.0),
        ("larder_requests_total{outcome=\"HIT_RAM\",status=\"2xx\",site=\"b\"}", 0.0),
        ("larder_response_body_bytes_total{outcome=\"MISS\",site=\"b\"}", 7.0),
        ("larder_upstream_errors_total{reason=\"connect\",site=\"b\"}", 1.0),
        ("larder_upstream_errors_total{reason=\"connect\",site=\"a\"}", 0.0),
        ("larder_upstream_first_byte_seconds_sum{site=\"b\"}", 0.003),
        ("larder_upstream_duration_seconds_sum{site=\"b\"}", 0.006),
        ("larder_upstream_duration_seconds_count{site=\"a\"}", 0.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}\n{text}");
    }
}

#[test]
fn gauges_are_opened_minus_closed() {
    let metrics = Metrics::new(1, TokioClock::system());
    metrics.count(Event::ConnectionOpened, 5);
    metrics.count(Event::ConnectionClosed, 2);
    metrics.count(Event::FillBegun, 9);
    metrics.count(Event::FillStored, 4);
    metrics.count(Event::FillAborted, 2);
    metrics.count(Event::FollowerJoined, 3);
    metrics.count(Event::FillValidated, 1);
    metrics.malformed(Some(400));
    metrics.malformed(None);
    metrics.request(SiteSlot::NONE, Outcome::Error(Error::Connect), 502, 0, Duration::ZERO);
    let text = metrics.scrape(Format::OpenMetrics);
    for (series, expected) in [
        ("larder_client_connections", 3.0),
        ("larder_client_connections_accepted_total", 5.0),
        ("larder_fills", 2.0),
        ("larder_fills_ended_total{result=\"stored\"}", 4.0),
        ("larder_fill_followers_joined_total", 3.0),
        ("larder_requests_malformed_total{status=\"4xx\"}", 1.0),
        ("larder_requests_malformed_total{status=\"none\"}", 1.0),
        ("larder_upstream_errors_total{reason=\"connect\"}", 1.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}\n{text}");
    }
}

#[test]
fn each_scrape_calls_the_sources_and_groups_families() {
    let metrics = Metrics::new(1, TokioClock::system());
    let asked = AtomicU64::new(0);
    metrics.add_source(Box::new(move |out: &mut Samples| {
        let n = asked.fetch_add(1, Ordering::Relaxed) + 1;
        out.counter("larder_device_reads", "Reads.", &[("device", "a\"b\\c\nd")], n);
        out.gauge("larder_index_load", "Load.", &[], 0.5);
        out.counter("larder_device_reads", "Reads.", &[("device", "b")], 7u64);
    }));
    metrics.scrape(Format::Text);
    let text = metrics.scrape(Format::Text);
    let at = text.find("# HELP larder_device_reads_total").unwrap();
    let expected = "# HELP larder_device_reads_total Reads.\n\
                    # TYPE larder_device_reads_total counter\n\
                    larder_device_reads_total{device=\"a\\\"b\\\\c\\nd\"} 2\n\
                    larder_device_reads_total{device=\"b\"} 7\n";
    assert!(text[at..].starts_with(expected), "{}", &text[at..]);
    assert_eq!(value(&text, "larder_index_load"), Some(0.5));
    assert!(!text.contains("# EOF"));
    let samples = metrics.samples();
    let of_b = |labels: &sample::Labels| labels.iter().any(|(_, value)| value == "b");
    assert_eq!(samples.sum("larder_device_reads", of_b), 7.0);
    assert_eq!(samples.label_values("larder_device_reads", "device").len(), 2);
}

/// Checks that names are unique, that help and type precede the figures of each, and that every
/// figure is a number.
#[test]
fn the_text_is_well_formed() {
    let text = Metrics::new(1, TokioClock::system()).scrape(Format::OpenMetrics);
    let mut family = String::new();
    let mut seen = std::collections::HashSet::new();
    for line in text.lines().take_while(|line| *line != "# EOF") {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(help.ends_with('.'), "{line}");
            assert!(seen.insert(name.to_owned()), "{name} comes twice");
            family = name.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            assert!(kind.starts_with(&format!("{family} ")), "{line}");
        } else {
            assert!(line.starts_with(&family), "{line} is not of {family}");
            assert!(line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok(), "{line}");
        }
    }
    for name in ["process_resident_memory_bytes", "process_cpu_seconds", "process_open_fds"] {
        assert!(seen.contains(name), "{name} is missing");
    }
}

#[test]
fn names_of_outcomes_are_numbered_in_order() {
    let all: Vec<_> = names().collect();
    assert_eq!(all.len(), NAMES);
    for outcome in Outcome::all() {
        assert_eq!(all[name_index(outcome)], (name_index(outcome), outcome.name()));
    }
}
