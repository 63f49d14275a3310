//! Exact lines, and attempts to break out of them.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::observe::outcome::{Bypass, Error, Invalid};

const FORMATS: [Format; 3] = [Format::Combined, Format::Squid, Format::Json];

fn record() -> Record<'static> {
    Record {
        ended: UNIX_EPOCH + Duration::from_millis(1_286_536_308_079),
        duration: Duration::from_micros(180_250),
        client: "::ffff:192.168.0.224".parse().unwrap(),
        method: "GET",
        url: "http://www.example.com/a/b?q=1&r=%20",
        version: Version::HTTP_11,
        tls: None,
        status: 200,
        bytes_out: 1411,
        body_out: 1200,
        referer: Some(b"http://www.example.com/"),
        user_agent: Some(b"curl/8.5.0"),
        content_type: Some(b"text/html; charset=utf-8"),
        outcome: Outcome::Miss,
        aborted: false,
        hierarchy: Hierarchy::Direct("93.184.216.34"),
        upstream_addresses: Some("192.0.2.1:80, 93.184.216.34:80"),
    }
}

fn line(format: Format, record: &Record<'_>) -> String {
    let mut out = Vec::new();
    record.write(format, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn exact_lines() {
    let record = record();
    assert_eq!(
        line(Format::Squid, &record),
        "1286536308.079    180 192.168.0.224 TCP_MISS/200 1411 GET \
         http://www.example.com/a/b?q=1&r=%20 - HIER_DIRECT/93.184.216.34 text/html\n"
    );
    assert_eq!(
        line(Format::Combined, &record),
        "192.168.0.224 - - [08/Oct/2010:11:11:48 +0000] \
         \"GET http://www.example.com/a/b?q=1&r=%20 HTTP/1.1\" 200 1200 \
         \"http://www.example.com/\" \"curl/8.5.0\" MISS\n"
    );
    assert_eq!(
        line(Format::Json, &record),
        "{\"time\":\"2010-10-08T11:11:48.079Z\",\"duration_ms\":180.250,\
         \"client\":\"192.168.0.224\",\"method\":\"GET\",\
         \"url\":\"http://www.example.com/a/b?q=1&r=%20\",\"version\":\"HTTP/1.1\",\
         \"status\":200,\"bytes_out\":1411,\"body_out\":1200,\
         \"outcome\":\"MISS\",\"aborted\":false,\"upstream\":\"93.184.216.34\",\
         \"upstream_addr\":\"192.0.2.1:80, 93.184.216.34:80\",\
         \"referer\":\"http://www.example.com/\",\"user_agent\":\"curl/8.5.0\",\
         \"content_type\":\"text/html; charset=utf-8\"}\n"
    );
}

#[test]
fn lines_with_nothing_in_them() {
    let record = Record {
        method: "",
        url: "",
        status: 400,
        bytes_out: 90,
        body_out: 0,
        referer: None,
        user_agent: None,
        content_type: None,
        outcome: Outcome::Invalid(Invalid::Syntax),
        hierarchy: Hierarchy::None,
        duration: Duration::ZERO,
        ..record()
    };
    assert_eq!(
        line(Format::Squid, &record),
        "1286536308.079      0 192.168.0.224 NONE_NONE/400 90 NONE error:invalid-request - \
         HIER_NONE/- -\n"
    );
    assert_eq!(
        line(Format::Combined, &record),
        "192.168.0.224 - - [08/Oct/2010:11:11:48 +0000] \"-\" 400 - \"-\" \"-\" \
         INVALID(syntax)\n"
    );
    let json = line(Format::Json, &record);
    assert!(json.contains("\"outcome\":\"INVALID\",\"reason\":\"syntax\""), "{json}");
    assert!(!json.contains("\"method\"") && !json.contains("\"url\""), "{json}");
}

#[test]
fn squid_words_for_hits_parents_and_tunnels() {
    let hit = Record { outcome: Outcome::HitRam, hierarchy: Hierarchy::None, ..record() };
    assert!(line(Format::Squid, &hit).contains(" TCP_MEM_HIT/200 "));
    assert!(line(Format::Squid, &hit).contains(" HIER_NONE/- "));
    let aborted = Record {
        outcome: Outcome::Bypass(Bypass::Range),
        hierarchy: Hierarchy::Parent("origin.internal"),
        aborted: true,
        ..record()
    };
    let text = line(Format::Squid, &aborted);
    assert!(text.contains(" TCP_MISS_ABORTED/200 "), "{text}");
    assert!(text.contains(" FIRSTUP_PARENT/origin.internal "), "{text}");
    let tunnel = Record {
        method: "CONNECT",
        url: "www.example.com:443",
        outcome: Outcome::Tunnel,
        content_type: None,
        ..record()
    };
    assert_eq!(
        line(Format::Squid, &tunnel),
        "1286536308.079    180 192.168.0.224 TCP_TUNNEL/200 1411 CONNECT www.example.com:443 - \
         HIER_DIRECT/93.184.216.34 -\n"
    );
    let error = Record { status: 0, outcome: Outcome::Error(Error::Connect), ..record() };
    assert!(line(Format::Squid, &error).contains(" TCP_MISS/000 "));
}

#[test]
fn user_information_is_left_out() {
    for (url, logged) in [
        ("http://joe:secret@host.example/a?x=1", "http://host.example/a?x=1"),
        ("http://secret@host.example", "http://host.example"),
        ("http://joe:secret@evil@host.example/", "http://host.example/"),
        ("HTTP://joe:secret@host.example?q=@x", "HTTP://host.example?q=@x"),
        ("http:///secret@host.example/", "http:///host.example/"),
        ("joe:secret@host.example:443", "host.example:443"),
        ("secret@host.example:443", "host.example:443"),
        ("http://host.example/@at", "http://host.example/@at"),
        ("/path/@at", "/path/@at"),
        ("host.example:443", "host.example:443"),
        ("http://[::1]:80/", "http://[::1]:80/"),
    ] {
        let method = if url.ends_with(":443") { "CONNECT" } else { "GET" };
        let referer = Some(url.as_bytes());
        let record = Record { method, url, referer, ..record() };
        for format in FORMATS {
            let text = line(format, &record);
            assert!(
                text.contains(&format!("{method} {logged} "))
                    || text.contains(&format!("\"url\":\"{logged}\"")),
                "{text}"
            );
            assert!(!text.contains("secret") && !text.contains("joe"), "{text}");
        }
    }
}

/// Tests every byte in every field that peers fill, and texts that look like the end of a field.
#[test]
fn nothing_breaks_out_of_its_field() {
    let all: Vec<u8> = (0..=255).collect();
    let hostile: [&[u8]; 6] = [
        &all,
        b"x\" 200 1 \"-\" \"-\" HIT_RAM\n127.0.0.1 - - [forged]",
        b"\",\"outcome\":\"HIT_RAM\",\"x\":\"",
        b"\\\" \\",
        b"\x1b[2J\r\n\0",
        "na\u{ef}ve \u{1f600} \u{202e} \u{2028}".as_bytes(),
    ];
    for bytes in hostile {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let record = Record {
            method: &text,
            url: &text,
            referer: Some(bytes),
            user_agent: Some(bytes),
            content_type: Some(bytes),
            hierarchy: Hierarchy::Parent(&text),
            ..record()
        };
        for format in FORMATS {
            let line = line(format, &record);
            let body = line.strip_suffix('\n').unwrap();
            assert!(body.bytes().all(visible_or_space), "{line:?}");
            match format {
                Format::Squid => assert_eq!(body.split_whitespace().count(), 10, "{body}"),
                Format::Combined => assert_eq!(quoted_fields(body), 3, "{body}"),
                Format::Json => assert_eq!(json_of(body, bytes), "MISS", "{body}"),
            }
        }
    }
}

/// Counts the quoted fields as a reader of the format would, and checks the text between.
fn quoted_fields(line: &str) -> usize {
    let (mut fields, mut inside, mut escaped) = (0, false, false);
    let mut outside = String::new();
    for c in line.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' => {
                inside = !inside;
                fields += usize::from(inside);
            }
            _ if !inside => outside.push(c),
            _ => {}
        }
    }
    assert!(!inside);
    assert!(outside.ends_with(" 200 1200   MISS"), "{outside}");
    fields
}

/// Returns the outcome in the line as a JSON reader sees it; checks one field's round trip.
fn json_of(line: &str, agent: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(value["user_agent"], *String::from_utf8_lossy(agent));
    value["outcome"].as_str().unwrap().to_owned()
}

#[test]
fn squid_names_the_server_without_its_port() {
    for (origin, named) in [
        ("192.0.2.1:8080", "192.0.2.1"),
        ("origin.example:80", "origin.example"),
        ("[2001:db8::1]:8080", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("origin.example", "origin.example"),
    ] {
        let record = Record { hierarchy: Hierarchy::Direct(origin), ..record() };
        let text = line(Format::Squid, &record);
        assert!(text.contains(&format!(" HIER_DIRECT/{named} ")), "{text}");
    }
}
