//! Attacks on the correctness of the proxy: messages that two parsers could read differently,
//! responses that must not reach a second client, and origins that violate the protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, mpsc};
use std::thread;

use testkit::client::{Client, Reply, exchange_bytes, request_text};
use testkit::io::PATIENCE;
use testkit::origin::{Origin, Received, Then, ok};

use crate::rig::Rig;

const FRESH: &str = "Cache-Control: max-age=600\r\n";

/// Starts an origin that holds the responses numbered `held` until the test sends a message for
/// each.
fn held_origin(
    held: std::ops::Range<usize>,
    answer: impl Fn(&Received) -> String + Send + Sync + 'static,
) -> (Origin, Sender<()>) {
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    let origin = Origin::scripted(move |asked, stream| {
        if held.contains(&asked.number) {
            let _ = receiver.lock().unwrap().recv();
        }
        let _ = stream.write_all(answer(asked).as_bytes());
        Then::Stay
    });
    (origin, sender)
}

fn ask(rig: &Rig, url: &str, fields: &str) -> thread::JoinHandle<Reply> {
    let mut client = rig.client();
    client.send(request_text("GET", url, fields));
    thread::spawn(move || client.answer())
}

#[test]
fn a_follower_of_another_variant_gets_its_own_after_an_overtaken_fill() {
    let (origin, go) = held_origin(0..1, |asked| match asked.method.as_str() {
        "DELETE" => ok("", "gone"),
        _ => {
            let language = asked.field("accept-language").unwrap_or_default();
            ok(&format!("{FRESH}Vary: Accept-Language\r\n"), &format!("in {language}"))
        }
    });
    let rig = Rig::forward();
    let url = origin.url("/v");
    let first = ask(&rig, &url, "Accept-Language: de\r\n");
    origin.await_count(1);
    let followers: Vec<_> = (0..4).map(|_| ask(&rig, &url, "Accept-Language: en\r\n")).collect();
    thread::sleep(std::time::Duration::from_millis(50));
    rig.client().send(request_text("DELETE", &url, "")).answer();
    go.send(()).unwrap();
    assert_eq!(first.join().unwrap().text(), "in de");
    for fill_response in followers {
        let answer = fill_response.join().unwrap();
        assert_eq!(answer.text(), "in en", "{}", answer.detail());
    }
}

#[test]
fn a_304_for_one_client_reaches_no_other() {
    let (origin, go) = held_origin(1..2, |asked| match asked.number {
        0 => ok("Cache-Control: max-age=0\r\nETag: \"v\"\r\n", "body"),
        n => format!(
            "HTTP/1.1 304 Not Modified\r\nCache-Control: private, max-age=60\r\nETag: \"v\"\r\n\
             Set-Cookie: client={n}\r\n\r\n"
        ),
    });
    let rig = Rig::forward_with(|options| options.fill.unshareable_for = Default::default());
    let url = origin.url("/p");
    rig.client().get(&url);
    let first = ask(&rig, &url, "");
    origin.await_count(2);
    let followers: Vec<_> = (0..4).map(|_| ask(&rig, &url, "")).collect();
    thread::sleep(std::time::Duration::from_millis(50));
    go.send(()).unwrap();
    assert_eq!(first.join().unwrap().field("set-cookie").unwrap(), "client=1");
    for fill_response in followers {
        let answer = fill_response.join().unwrap();
        assert_ne!(answer.field("set-cookie").as_deref(), Some("client=1"), "{answer:?}");
    }
}

#[test]
fn an_unrequested_304_confirms_nothing() {
    let origin = Origin::scripted(|asked, stream| {
        let answer = match asked.number {
            0 => ok(
                "Cache-Control: max-age=0, stale-while-revalidate=0, stale-if-error=60\r\n",
                "old",
            ),
            _ => format!("HTTP/1.1 304 Not Modified\r\n{FRESH}\r\n"),
        };
        let _ = stream.write_all(answer.as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    rig.client().get(&origin.url("/"));
    let answer = rig.client().get(&origin.url("/"));
    assert_ne!(answer.detail(), "REVALIDATED", "{answer:?}");
}

#[test]
fn the_vary_of_a_304_applies_to_the_next_request() {
    let origin = Origin::scripted(|asked, stream| {
        let language = asked.field("accept-language").unwrap_or_default();
        let answer = match asked.number {
            0 => ok(&format!("{FRESH}ETag: \"v\"\r\n"), &format!("in {language}")),
            1 => format!(
                "HTTP/1.1 304 Not Modified\r\n{FRESH}ETag: \"v\"\r\nVary: Accept-Language\r\n\r\n"
            ),
            _ => ok(&format!("{FRESH}Vary: Accept-Language\r\n"), &format!("in {language}")),
        };
        let _ = stream.write_all(answer.as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let url = origin.url("/");
    let mut client = rig.client();
    client.get_with(&url, "Accept-Language: de\r\n");
    let reload = "Accept-Language: de\r\nCache-Control: no-cache\r\n";
    assert_eq!(client.get_with(&url, reload).detail(), "REVALIDATED");
    for language in ["en", "de", "en"] {
        let answer = client.get_with(&url, &format!("Accept-Language: {language}\r\n"));
        assert_eq!(answer.text(), format!("in {language}"), "{}", answer.detail());
    }
}

#[test]
fn unknown_transfer_codings_are_refused() {
    let origin = Origin::always(ok("", ""));
    let rig = Rig::forward();
    for coding in ["gzip, chunked", "chunked, chunked", "identity, chunked"] {
        let fields = format!("Transfer-Encoding: {coding}\r\n");
        let post = request_text("POST", &origin.url("/"), &fields) + "3\r\nabc\r\n0\r\n\r\n";
        let status = rig.client().send(post).head()[9..12].parse::<u16>().unwrap();
        assert!([400, 501].contains(&status), "{coding}: {status}");
    }
    assert_eq!(origin.count(), 0);
    for (coding, body) in
        [("gzip, chunked", "3\r\nabc\r\n0\r\n\r\n"), ("gzip", "abc"), ("chunked, gzip", "abc")]
    {
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Transfer-Encoding: {coding}\r\n\r\n");
        let answer = head + body;
        let origin = Origin::scripted(move |_, stream| {
            let _ = stream.write_all(answer.as_bytes());
            Then::Close
        });
        for method in ["GET", "POST"] {
            let text = request_text(method, &origin.url("/"), "");
            let answer = rig.client().send(text).answer();
            assert_eq!(answer.detail(), "ERROR(bad-answer)", "{coding} {method}: {answer:?}");
        }
    }
}

#[test]
fn two_lengths_of_an_origin_never_reach_a_client() {
    let chunked = "a\r\n0123456789\r\n0\r\n\r\n";
    let cases = [
        format!("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: 30\r\n\r\n{chunked}"),
        "Content-Length: 10\r\nContent-Length: 10\r\n\r\n0123456789".to_owned(),
        "Content-Length: 10, 10\r\n\r\n0123456789".to_owned(),
    ];
    let rig = Rig::forward();
    for storable in [FRESH, "Cache-Control: no-store\r\n"] {
        for case in &cases {
            let origin = Origin::always(format!("HTTP/1.1 200 OK\r\n{storable}{case}"));
            let mut client = rig.client();
            for _ in 0..3 {
                let answer = client.get(&origin.url("/"));
                assert_eq!(answer.text(), "0123456789", "{case}: {}", answer.head);
                let length = answer.field("content-length").unwrap_or("10".to_owned());
                assert_eq!(length, "10", "{case}");
                let chunked = answer.field("transfer-encoding").is_some();
                assert!(!(chunked && answer.field("content-length").is_some()), "{case}");
            }
        }
    }
}

#[test]
fn contradictory_lengths_are_a_502_also_for_head() {
    let rig = Rig::forward();
    for lengths in ["Content-Length: 3\r\nContent-Length: 5\r\n", "Content-Length: +3\r\n"] {
        let origin = Origin::always(format!("HTTP/1.1 200 OK\r\n{lengths}\r\n"));
        let answer = rig.client().send(request_text("GET", &origin.url("/"), "")).answer();
        assert_eq!(answer.detail(), "ERROR(bad-answer)", "{answer:?}");
        let mut client = rig.client();
        let answer = client.send(request_text("HEAD", &origin.url("/"), "")).answer_to("HEAD");
        assert_eq!(answer.field("content-length").filter(|l| l.parse::<u64>().is_err()), None);
    }
}

#[test]
fn bytes_after_a_response_are_never_the_next_one() {
    let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    for answer in [
        format!("{}{evil}", ok(FRESH, "good")),
        format!("HTTP/1.1 204 No Content\r\n{FRESH}Content-Length: 4\r\n\r\ngood{evil}"),
        format!("HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n{evil}"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{evil}"),
    ] {
        for method in ["GET", "HEAD", "POST"] {
            let first = answer.clone();
            let origin = Origin::scripted(move |asked, stream| {
                let bytes = match asked.path.as_str() {
                    "/first" => first.clone(),
                    _ => ok(FRESH, "second"),
                };
                let _ = stream.write_all(bytes.as_bytes());
                Then::Stay
            });
            let rig = Rig::forward();
            let mut client = rig.client();
            client.send(request_text(method, &origin.url("/first"), "If-Match: \"x\"\r\n"));
            client.answer_to(method);
            let second = client.get(&origin.url("/second"));
            assert_eq!(second.text(), "second", "{method} {answer:?}");
        }
    }
}

#[test]
fn a_removed_field_selects_no_variant() {
    let origin = Origin::scripted(|asked, stream| {
        let language = asked.field("accept-language").unwrap_or("none".to_owned());
        let fields = format!("{FRESH}Vary: Accept-Language\r\n");
        let _ = stream.write_all(ok(&fields, &format!("in {language}")).as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let url = origin.url("/v");
    let hidden = "Accept-Language: de\r\nConnection: Accept-Language\r\n";
    assert_eq!(rig.client().get_with(&url, hidden).text(), "in none");
    assert_eq!(rig.client().get_with(&url, "Accept-Language: de\r\n").text(), "in de");
    assert_eq!(rig.client().get_with(&url, hidden).text(), "in none");
}

#[test]
fn the_upstream_of_a_site_gets_the_host_that_is_in_the_key() {
    let origin = Origin::scripted(|asked, stream| {
        let host = asked.field("host").unwrap_or("missing".to_owned());
        let _ = stream.write_all(ok(FRESH, &format!("site {host}")).as_bytes());
        Then::Stay
    });
    let rig = Rig::reverse(origin.address(), true);
    let mut client = rig.client();
    let answer = client.send("GET http://a.example:81/ HTTP/1.0\r\n\r\n").answer();
    assert_eq!(answer.text(), "site a.example:81");
    let answer = rig.client().send("GET / HTTP/1.1\r\nHost: a.example:81\r\n\r\n").answer();
    assert_eq!(
        (answer.text().as_str(), answer.detail().as_str()),
        ("site a.example:81", "HIT_RAM")
    );
}

#[test]
fn a_client_without_framing_detects_a_truncated_response() {
    let origin = Origin::scripted(|_, stream| {
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Transfer-Encoding: chunked\r\n\r\n");
        let _ = stream.write_all(format!("{head}5\r\n12345\r\n").as_bytes());
        Then::Close
    });
    let rig = Rig::forward();
    let mut stream = TcpStream::connect(rig.address).unwrap();
    let host = origin.address();
    write!(stream, "GET http://{host}/ HTTP/1.0\r\n\r\n").unwrap();
    let mut read = Vec::new();
    // The end of a connection would complete the body, so only a reset shows that it is truncated.
    let error = stream.read_to_end(&mut read).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn credentials_of_one_client_do_not_disable_the_cache_for_others() {
    let origin = Origin::scripted(|asked, stream| {
        let _ = stream.write_all(ok(FRESH, &format!("answer {}", asked.number)).as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let url = origin.url("/a");
    let own = rig.client().get_with(&url, "Authorization: Basic eDp5\r\n");
    assert_eq!(own.text(), "answer 0");
    assert_eq!(rig.client().get(&url).detail(), "MISS");
    assert_eq!(rig.client().get(&url).text(), "answer 1");
    // A reload with credentials does not replace the shared response.
    let own = rig.client().get_with(&url, "Authorization: x\r\nCache-Control: no-cache\r\n");
    assert_eq!(own.text(), "answer 2");
    assert_eq!(rig.client().get(&url).text(), "answer 1");
}

#[test]
fn a_connect_has_no_body() {
    let rig = Rig::forward();
    for fields in ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
        let connect =
            format!("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n{fields}\r\n");
        let answer = rig.client().send(connect).send("0\r\n\r\n").answer();
        assert_eq!((answer.status, answer.detail().as_str()), (400, "INVALID(body)"), "{fields}");
    }
}

/// Sends the bytes as a client; returns the requests that the origin received and the statuses of
/// the responses.
fn smuggle(bytes: &str) -> (Vec<String>, Vec<u16>) {
    let origin = Origin::always(ok("Cache-Control: no-store\r\n", ""));
    let rig = Rig::forward();
    let bytes = bytes.replace("ORIGIN", &origin.address().to_string());
    let read = exchange_bytes(rig.address, &[bytes], |_, _| (), (None, PATIENCE)).bytes;
    let read = String::from_utf8_lossy(&read).into_owned();
    let statuses =
        read.match_indices("HTTP/1.1 ").map(|(at, _)| read[at + 9..at + 12].parse().unwrap());
    let asked = origin.requests().iter().map(|a| format!("{} {}", a.method, a.path)).collect();
    (asked, statuses.collect())
}

#[test]
fn ambiguous_heads_smuggle_no_request() {
    let smuggled = "GET http://ORIGIN/smuggled HTTP/1.1\r\nHost: ORIGIN\r\n\r\n";
    for fields in [
        "Content-Length: 0\r\nContent-Length: 5\r\n",
        "Content-Length: 0, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length : 5\r\n",
        "Content-Length:\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
        "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n",
        "X: y\r\n Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
        "X: y\rContent-Length: 5\r\n",
        "X: a\0b\r\n",
        "Content_Length\r\n",
        ": empty\r\n",
    ] {
        let post =
            format!("POST http://ORIGIN/first HTTP/1.1\r\nHost: ORIGIN\r\n{fields}\r\n{smuggled}");
        let (asked, statuses) = smuggle(&post);
        assert!(asked.is_empty(), "{fields:?}: {asked:?}");
        assert_eq!(statuses.len(), 1, "{fields:?}: {statuses:?}");
        assert!([400, 501].contains(&statuses[0]), "{fields:?}: {statuses:?}");
    }
}

#[test]
fn ambiguous_chunks_smuggle_no_request() {
    let smuggled = "GET http://ORIGIN/smuggled HTTP/1.1\r\nHost: ORIGIN\r\n\r\n";
    for chunks in [
        "0x0\r\n\r\n",
        "+0\r\n\r\n",
        "-1\r\n\r\n",
        "ffffffffffffffff\r\n",
        "10000000000000000\r\n\r\n",
        "\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "0;a=b\n\r\n",
        "3;x\nabc\r\n0\r\n\r\n",
        "3\rabc\r\n0\r\n\r\n",
        "0 1\r\n\r\n",
        "g\r\n\r\n",
    ] {
        let post = format!(
            "POST http://ORIGIN/first HTTP/1.1\r\nHost: ORIGIN\r\nTransfer-Encoding: chunked\r\n\
             \r\n{chunks}{smuggled}"
        );
        let (asked, _) = smuggle(&post);
        assert!(!asked.contains(&"GET /smuggled".to_owned()), "{chunks:?}: {asked:?}");
    }
}

/// The body is framed by its chunks, and bytes that follow it are not read as a request (RFC 9112,
/// 6.1).
#[test]
fn a_request_with_two_lengths_is_the_last_of_its_connection() {
    let next = "GET http://ORIGIN/next HTTP/1.1\r\nHost: ORIGIN\r\n\r\n";
    let chunks = "3\r\nabc\r\n0\r\n\r\n";
    for fields in [
        "Content-Length: 13\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
    ] {
        let post = format!("POST http://ORIGIN/first HTTP/1.1\r\nHost: ORIGIN\r\n{fields}\r\n");
        let (asked, statuses) = smuggle(&format!("{post}{chunks}{next}"));
        assert_eq!(asked, ["POST /first"], "{fields:?}");
        assert_eq!(statuses, [200], "{fields:?}");
    }
}

#[test]
fn requests_after_an_error_are_answered_in_order_or_not_at_all() {
    let get = |path: &str| format!("GET http://ORIGIN{path} HTTP/1.1\r\nHost: ORIGIN\r\n\r\n");
    let wrong = "GET /no-proxy HTTP/1.1\r\nHost: ORIGIN\r\n\r\n";
    let (asked, statuses) = smuggle(&format!("{}{wrong}{}", get("/a"), get("/b")));
    assert_eq!((asked.len(), statuses.as_slice()), (2, &[200, 400, 200][..]));
    let (asked, statuses) = smuggle(&format!("{}nonsense\r\n\r\n{}", get("/a"), get("/b")));
    assert_eq!(
        (asked.as_slice(), statuses.as_slice()),
        (&["GET /a".to_owned()][..], &[200, 400][..])
    );
    // The body of a rejected request is not read as a request.
    let post = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 600\r\n\r\n";
    let (asked, statuses) = smuggle(&format!("{post}{}", get("/body")));
    assert_eq!((asked.len(), statuses.as_slice()), (0, &[400][..]));
}

#[test]
fn an_origins_head_cannot_split_the_response() {
    let rig = Rig::forward();
    for field in [
        "X: a\rSet-Cookie: evil=1\r\n",
        "X: a\0b\r\n",
        "X : a\r\n",
        "X: a\r\n Set-Cookie: evil=1\r\n",
        "\u{1}: x\r\n",
    ] {
        let origin = Origin::always(ok(&format!("{FRESH}{field}"), "body"));
        let mut client = rig.client();
        let answer = client.get(&origin.url("/"));
        assert_eq!(answer.field("set-cookie"), None, "{field:?}");
        assert!(!answer.head.replace("\r\n", "").contains(['\r', '\n', '\0']), "{field:?}");
        assert_eq!(answer.detail(), "ERROR(bad-answer)", "{field:?} {answer:?}");
    }
}

#[test]
fn hits_have_the_fields_of_the_last_validation() {
    let origin = Origin::scripted(|asked, stream| {
        let answer = match asked.field("if-none-match") {
            Some(_) => format!(
                "HTTP/1.1 304 Not Modified\r\n{FRESH}ETag: \"v\"\r\nX-Round: {}\r\n\r\n",
                asked.number
            ),
            None => ok(&format!("{FRESH}Age: 100\r\nETag: \"v\"\r\nX-Round: 0\r\n"), "body"),
        };
        let _ = stream.write_all(answer.as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let url = origin.url("/");
    let mut client = rig.client();
    let check = |answer: Reply, detail: &str, round: &str, age: std::ops::Range<u64>| {
        assert_eq!((answer.text().as_str(), answer.detail().as_str()), ("body", detail));
        assert_eq!(answer.field("x-round").unwrap(), round);
        let shown = answer.field("age").map_or(0, |age| age.parse().unwrap());
        assert!(age.contains(&shown), "{}", answer.head);
        assert_eq!(answer.field("via").unwrap().matches("larder").count(), 1);
        assert_eq!(answer.field("cache-status").unwrap().matches("larder").count(), 1);
        assert_eq!(answer.head.to_lowercase().matches("\r\ndate:").count(), 1);
    };
    check(client.get(&url), "MISS", "0", 100..130);
    for _ in 0..2 {
        check(client.get(&url), "HIT_RAM", "0", 100..130);
    }
    let reload = "Cache-Control: no-cache\r\n";
    check(client.get_with(&url, reload), "REVALIDATED", "1", 0..30);
    for _ in 0..2 {
        check(client.get(&url), "HIT_RAM", "1", 0..30);
    }
}

#[test]
fn a_post_on_a_dying_connection_is_not_sent_twice() {
    let origin = Origin::scripted(|asked, stream| {
        if asked.on_connection > 0 {
            return Then::Close;
        }
        let _ = stream.write_all(ok("Cache-Control: no-store\r\n", "x").as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let url = origin.url("/");
    for body in ["", "abc"] {
        // The same client keeps to one worker, and so to one pool.
        let mut client: Client = rig.client();
        client.get(&url);
        let before = origin.count();
        let fields = format!("Content-Length: {}\r\n", body.len());
        let answer = client.send(request_text("POST", &url, &fields) + body).answer();
        assert_eq!(answer.status, 502, "{body:?}");
        assert_eq!(origin.count() - before, 1, "{body:?}");
    }
}

#[test]
fn a_slow_client_gets_a_whole_body_that_the_store_refuses_midway() {
    // Larger than a quarter of the cache, a fact known only after the whole body.
    let body: Vec<u8> = (0..40_000_000u32).map(|i| (i.wrapping_mul(7919) >> 8) as u8).collect();
    let mut answer =
        format!("HTTP/1.1 200 OK\r\n{FRESH}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for piece in body.chunks(50_000) {
        answer.extend([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
    }
    answer.extend(b"0\r\n\r\n");
    let origin = Origin::always(answer);
    let rig = Rig::forward();
    let (mut slow, mut fast) = (rig.client(), rig.client());
    slow.send(request_text("GET", &origin.url("/"), ""));
    let head = slow.head();
    fast.send(request_text("GET", &origin.url("/"), ""));
    fast.head();
    // Nearly as much as the store accepts.
    let mut read = Vec::new();
    assert!(fast.exactly(16_300_000, &mut read));
    drop(fast);
    let answer = slow.rest(head, "GET");
    assert!(answer.whole && answer.body == body, "{} bytes", answer.body.len());
    assert_eq!(origin.count(), 1);
}
