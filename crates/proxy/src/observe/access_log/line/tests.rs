//! Tests of exact lines, and of attempts to break out of a field.

#![allow(clippy::unwrap_used)]

use std::borrow::Borrow;
use std::net::Ipv4Addr;

use super::*;
use crate::message::template::Values;
use crate::observe::outcome::{Bypass, Error, Invalid};

static FORMATS: [Format; 3] = [Format::Combined, Format::Squid, Format::Json];

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
        texts: None,
    }
}

fn line(format: impl Borrow<Format>, record: &Record<'_>) -> String {
    let mut out = Vec::new();
    record.write(format.borrow(), &mut out);
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

/// Gives the variables of the request this value.
struct OfRequest<'a>(&'a [u8]);

impl Values for OfRequest<'_> {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) {
        if matches!(variable, Variable::Uri | Variable::Rule | Variable::Header(_)) {
            out.extend_from_slice(self.0);
        }
    }
}

#[test]
fn a_format_of_the_operator_escapes_as_nginx_does() {
    let text = "{client_ip} \"{uri}\" {status} {bytes} {duration} {first_byte} {upstream_time} \
                {upstream} {outcome} {request_id} {rule} \"{header.referer}\" {time}";
    let format: Format = text.parse().unwrap();
    let Format::Own(template) = &format else { panic!("{format:?}") };
    for (value, written, referer) in [
        (&b""[..], "-", "-"),
        (b"a\"b\\\r\n\xff", r"a\x22b\x5C\x0D\x0A\xFF", r"a\x22b\x5C\x0D\x0A\xFF"),
        (b"http://u:p@h/", "http://u:p@h/", "http://h/"),
    ] {
        let mut texts = LogFields::default();
        texts.first_byte = Some(Duration::from_micros(1_002_003));
        texts.set_variables(template, &OfRequest(value));
        texts.set_routed_variables(template, &OfRequest(value));
        let record = Record { texts: Some(&texts), ..record() };
        assert_eq!(
            line(&format, &record),
            format!(
                "192.168.0.224 \"{written}\" 200 1411 0.180250 1.002003 - \
                 192.0.2.1:80, 93.184.216.34:80 MISS - {written} \"{referer}\" \
                 2010-10-08T11:11:48.079Z\n"
            )
        );
    }
}

#[test]
fn json_has_the_texts_of_requests_that_could_be_read() {
    let mut texts = LogFields::default();
    texts.first_byte = Some(Duration::from_micros(2_003));
    texts.upstream_time = Some(Duration::from_micros(7));
    texts.set_request_id(Some(b"r1"));
    texts.set_place(Some("shop"), Some("a \"rule\""));
    let line = line(Format::Json, &Record { texts: Some(&texts), ..record() });
    let expected = "\"upstream_time_ms\":0.007,\"first_byte_ms\":2.003,\"request_id\":\"r1\",\
                    \"site\":\"shop\",\"rule\":\"a \\\"rule\\\"\"";
    assert!(line.contains(expected), "{line}");
}

#[test]
fn wrong_formats_are_refused() {
    for (text, words) in [
        ("combned", "expected combined, squid, json or a text with variables"),
        ("{nope}", "{nope} is not a variable"),
        ("{uri}\n", "expected one line"),
    ] {
        let error = text.parse::<Format>().unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn empty_values_have_a_mark_in_each_format() {
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
fn squid_codes_of_hits_parents_and_tunnels() {
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
        for format in &FORMATS {
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

/// Tests every byte in every field that peers control, and texts that resemble the end of a field.
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
        for format in &FORMATS {
            let line = line(format, &record);
            let body = line.strip_suffix('\n').unwrap();
            assert!(body.bytes().all(|b| matches!(b, b' '..=b'~')), "{line:?}");
            match format {
                Format::Squid => assert_eq!(body.split_whitespace().count(), 10, "{body}"),
                Format::Combined => assert_eq!(quoted_fields(body), 3, "{body}"),
                Format::Json => assert_eq!(json_of(body, bytes), "MISS", "{body}"),
                Format::Own(_) => {}
            }
        }
    }
}

/// Counts the quoted fields as a reader of the format would, and checks the text between them.
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

/// Returns the line's outcome as a JSON reader sees it; checks that `agent` round-trips.
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

/// Returns a text of plain runs, characters of any kind, delimiters and escape sequences.
fn random_text(rng: &mut fastrand::Rng) -> String {
    const PARTS: [&str; 14] = [
        "http://",
        "user:pass@",
        "@",
        "/",
        "?#",
        "\"",
        "\\",
        " ",
        "\t",
        "\u{7f}",
        "\u{80}",
        "\u{fffd}",
        "\u{1f600}",
        "\0",
    ];
    let mut text = String::new();
    for _ in 0..rng.usize(..5) {
        match rng.u8(..4) {
            0 => text.push_str(rng.choice(PARTS).unwrap()),
            1 => text.push(rng.char(..)),
            _ => text.extend((0..rng.usize(..40)).map(|_| rng.alphanumeric())),
        }
    }
    text
}

/// Returns a random text, sometimes with bytes that are not UTF-8, or `None`.
fn random_bytes(rng: &mut fastrand::Rng) -> Option<Vec<u8>> {
    let mut bytes = random_text(rng).into_bytes();
    for _ in 0..rng.usize(..4).saturating_sub(1) {
        bytes.insert(rng.usize(..=bytes.len()), rng.u8(..));
    }
    rng.bool().then_some(bytes)
}

/// Returns an address in which zero segments and octets, and numbers of every length, are common.
fn random_address(rng: &mut fastrand::Rng) -> IpAddr {
    let mut segment = || rng.u16(..).checked_shr(rng.u32(..24)).unwrap_or(0);
    let segments: [u16; 8] = std::array::from_fn(|_| segment());
    match rng.u8(..4) {
        0 => IpAddr::from(segments.map(|s| s as u8).first_chunk::<4>().copied().unwrap()),
        1 => Ipv4Addr::from(rng.u32(..)).to_ipv6_mapped().into(),
        _ => IpAddr::from(segments),
    }
}

fn random_number(rng: &mut fastrand::Rng) -> u64 {
    match rng.u8(..8) {
        0 => u64::MAX,
        _ => rng.u64(..) >> rng.u32(..64),
    }
}

#[test]
fn lines_equal_those_of_standard_formatting() {
    let seed = std::env::var("LARDER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("LARDER_SEED={seed}");
    let rng = &mut fastrand::Rng::with_seed(seed);
    let outcomes: Vec<Outcome> = Outcome::all().collect();
    let versions =
        [Version::HTTP_09, Version::HTTP_10, Version::HTTP_11, Version::HTTP_2, Version::HTTP_3];
    for _ in 0..20_000 {
        let [method, url, peer, addresses, sni] = std::array::from_fn(|_| random_text(rng));
        let [referer, user_agent, content_type] = std::array::from_fn(|_| random_bytes(rng));
        let sni = rng.bool().then(|| sni.into());
        let tls = TlsFacts { version: "TLSv1.3", cipher: "TLS13_AES_128_GCM_SHA256", sni };
        let since = Duration::from_nanos(random_number(rng));
        let record = Record {
            ended: if rng.u8(..9) == 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + 20 * since },
            duration: Duration::from_micros(random_number(rng)),
            client: random_address(rng),
            method: &method,
            url: &url,
            version: *rng.choice(&versions).unwrap(),
            tls: rng.bool().then_some(&tls),
            status: rng.u16(..) >> rng.u32(..16),
            bytes_out: random_number(rng),
            body_out: rng.u64(..2) * random_number(rng),
            referer: referer.as_deref(),
            user_agent: user_agent.as_deref(),
            content_type: content_type.as_deref(),
            outcome: *rng.choice(&outcomes).unwrap(),
            aborted: rng.bool(),
            hierarchy: match rng.u8(..3) {
                0 => Hierarchy::None,
                1 => Hierarchy::Direct(&peer),
                _ => Hierarchy::Parent(&peer),
            },
            upstream_addresses: rng.bool().then_some(&*addresses),
            texts: None,
        };
        for format in &FORMATS {
            let mut expected = Vec::new();
            model::write(&record, format, &mut expected);
            assert_eq!(line(format, &record).as_bytes(), expected, "{record:?}");
        }
    }
}
