//! HTTP/2 with clients (RFC 9113).

use std::net::SocketAddr;

use http::Request;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use rustix::process::Signal;
use testkit::authority::Authority;
use testkit::larder::{Larder, Setup};
use testkit::origin::Origin;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::caller::{Caller, run};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Starts a reverse proxy that speaks HTTP/2 without TLS.
fn plain(more: &str) -> (Origin, SocketAddr, Setup, Larder) {
    let (origin, address) = (Origin::start(), testkit::address::free());
    let config = format!("[[listener]]\naddress = \"{address}\"\nh2c = true\n{more}");
    let setup = Setup::reverse(&origin.url("")).config(&config);
    let larder = setup.start();
    (origin, address, setup, larder)
}

async fn two(address: SocketAddr) -> Caller {
    Caller::two(TcpStream::connect(address).await.unwrap()).await
}

/// Encodes a frame: type, flags, stream, payload.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Encodes a field as a literal without indexing.
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0, name.len() as u8];
    bytes.extend(name.as_bytes());
    bytes.push(value.len() as u8);
    bytes.extend(value.as_bytes());
    bytes
}

fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    let usual = [(":method", "GET"), (":scheme", "http"), (":path", "/page?cc=no-store")];
    usual.iter().chain(fields).flat_map(|(name, value)| field(name, value)).collect()
}

/// Sends bytes after the preface and returns all received bytes until the server closes.
async fn converse(address: SocketAddr, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
    for frame in frames {
        // It may have ended by now.
        if stream.write_all(frame).await.is_err() {
            break;
        }
    }
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    said
}

/// Decodes the frames that a server sent: type, stream, payload.
fn frames(mut said: &[u8]) -> Vec<(u8, u32, Vec<u8>)> {
    let mut all = Vec::new();
    while said.len() >= 9 {
        let len = u32::from_be_bytes([0, said[0], said[1], said[2]]) as usize;
        let stream = u32::from_be_bytes([said[5], said[6], said[7], said[8]]);
        let Some(payload) = said.get(9..9 + len) else { break };
        all.push((said[3], stream, payload.to_vec()));
        said = &said[9 + len..];
    }
    all
}

/// Returns the error code of the last GOAWAY.
fn goaway(said: &[u8]) -> Option<u32> {
    let last = frames(said).into_iter().rev().find(|(kind, ..)| *kind == 7)?;
    Some(u32::from_be_bytes(last.2[4..8].try_into().unwrap()))
}

/// Returns the first frame that concerns stream 1 or ends the connection.
fn about_the_request(said: &[u8]) -> Option<(u8, u32, Vec<u8>)> {
    frames(said).into_iter().find(|(kind, stream, _)| *stream == 1 && *kind != 8 || *kind == 7)
}

/// Checks that the proxy still serves.
fn serves(address: SocketAddr) {
    run(async {
        let answer = two(address).await.get("http", "a.example", "/after").await.unwrap();
        answer.verify("/after");
    });
}

#[test]
fn many_requests_run_at_once_on_a_connection() {
    let (authority, origin, address) =
        (Authority::new(), Origin::start(), testkit::address::free());
    let setup = Setup::reverse(&origin.url(""));
    let chain = authority.issue_file(&setup.path(""), "a", &["a.example"]);
    let config = format!(
        "[[listener]]\naddress = \"{address}\"\ntls = true\n[[certificate]]\nchain = {chain:?}\n"
    );
    let larder = setup.config(&config).start();
    run(async {
        let config = authority.client(&["h2", "http/1.1"]);
        let caller = Caller::secured(address, "a.example", config).await.unwrap();
        let Caller::Two(send) = caller else { panic!("HTTP/2 was not agreed on") };
        let mut all = JoinSet::new();
        for i in 0..60 {
            let mut caller = Caller::Two(send.clone());
            let how = ["length", "chunked", "trailers"][i % 3];
            let target = format!("/page{}?size={}&how={how}", i % 20, 1000 + (i % 20) * 37_777);
            all.spawn(async move {
                let answer = caller.get("https", "a.example", &target).await.unwrap();
                answer.verify(&target);
                for name in ["connection", "keep-alive", "transfer-encoding", "upgrade"] {
                    assert!(!answer.headers.contains_key(name), "{:?}", answer.headers);
                }
            });
        }
        while let Some(done) = all.join_next().await {
            done.unwrap();
        }
    });
    let said = larder.metrics();
    assert!(said.contains("larder_client_http_connections_total{version=\"2\"} 1\n"), "{said}");
    larder.stop();
}

#[test]
fn prior_knowledge_and_http_1_share_a_listener() {
    let (origin, address, _setup, _larder) = plain("");
    run(async {
        let mut one = Caller::one(TcpStream::connect(address).await.unwrap()).await;
        one.get("http", "a.example", "/page").await.unwrap().verify("/page");
        let mut two = two(address).await;
        let answer = two.get("http", "a.example", "/page").await.unwrap();
        answer.verify("/page");
        assert_eq!(answer.outcome(), "HIT_RAM");
        let request = Request::post("http://a.example/form").header("te", "trailers");
        let request = request.header("cookie", "a=1").header("cookie", "b=2");
        let answer = two.ask(request.body(Full::from("the body")).unwrap()).await.unwrap();
        assert_eq!(answer.status, 200);
        // The URL says https, but the connection is not TLS.
        assert_eq!(two.get("https", "a.example", "/page").await.unwrap().status, 421);
    });
    let seen = &origin.requests_for("/form")[0];
    assert_eq!(seen.body, b"the body");
    assert_eq!(seen.head.get("host"), Some("a.example"));
    assert_eq!(seen.head.get("cookie"), Some("a=1; b=2"));
    assert!(seen.head.get("via").unwrap().starts_with("2.0 "), "{:?}", seen.head);
}

#[test]
fn malformed_heads_are_refused() {
    let (origin, address, _setup, _larder) = plain("");
    let authority = (":authority", "a.example");
    for fields in [
        vec![authority, ("connection", "close")],
        vec![authority, ("transfer-encoding", "chunked")],
        vec![authority, ("te", "gzip")],
        vec![authority, ("upgrade", "h2c")],
        vec![authority, ("X-Upper", "1")],
        vec![authority, ("x", "a\r\nb: c")],
        vec![("x", "1"), authority],
        vec![authority, ("content-length", "5")],
    ] {
        let bytes = frame(HEADERS, END_STREAM | END_HEADERS, 1, &head(&fields));
        let ping = frame(PING, 0, 0, &[0; 8]);
        let said = run(async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let start = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &bytes, &ping].concat();
            stream.write_all(&start).await.unwrap();
            let mut said = Vec::new();
            while about_the_request(&said).is_none() {
                if stream.read_buf(&mut said).await.unwrap_or(0) == 0 {
                    break;
                }
            }
            said
        });
        let answer = about_the_request(&said);
        let (kind, _, payload) = answer.unwrap_or_else(|| panic!("{fields:?}: {said:?}"));
        // A reset, the end of the connection, or a head with status 400.
        let refused = kind == RST_STREAM
            || kind == 7
            || kind == HEADERS && (payload[0] == 0x8c || payload.windows(3).any(|w| w == b"400"));
        assert!(refused, "{fields:?}: {kind} {payload:?}");
    }
    // Heads that HTTP/2 permits and HTTP does not: hosts that disagree, or no host.
    run(async {
        let mut caller = two(address).await;
        let request = Request::get("http://a.example/page").header("host", "b.example");
        let answer = caller.ask(request.body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(answer.status, 400);
    });
    assert_eq!(origin.requests_for("/page?cc=no-store").len(), 0);
    serves(address);
}

#[test]
fn floods_end_their_connection_and_nothing_else() {
    let (_origin, address, _setup, larder) = plain("");
    let headers =
        |stream: u32, flags| frame(HEADERS, flags, stream, &head(&[(":authority", "a.example")]));
    // Rapid reset: streams that are opened and reset at once.
    let rapid: Vec<Vec<u8>> = (0..20_000u32)
        .map(|i| {
            let stream = 2 * i + 1;
            let reset = frame(RST_STREAM, 0, stream, &8u32.to_be_bytes());
            [headers(stream, END_STREAM | END_HEADERS), reset].concat()
        })
        .collect();
    // A head that never ends.
    let endless: Vec<Vec<u8>> = [headers(1, END_STREAM)]
        .into_iter()
        .chain((0..200_000).map(|_| frame(CONTINUATION, 0, 1, &field("x", &"y".repeat(100)))))
        .collect();
    // Errors that make the proxy reset streams.
    let faulty: Vec<Vec<u8>> = (0..20_000u32)
        .map(|i| {
            let fields = head(&[(":authority", "a.example"), ("connection", "x")]);
            frame(HEADERS, END_STREAM | END_HEADERS, 2 * i + 1, &fields)
        })
        .collect();
    for (what, flood) in [("resets", rapid), ("continuation", endless), ("faults", faulty)] {
        let said = run(converse(address, &flood));
        let code = goaway(&said);
        // ENHANCE_YOUR_CALM, PROTOCOL_ERROR or COMPRESSION_ERROR; the connection reset may overtake
        // it.
        assert!(matches!(code, None | Some(11 | 1 | 9)), "{what}: {code:?}");
        serves(address);
    }
    // Frames without a request: settings, pings, windows, priorities, empty data.
    let kept = larder.resident();
    let window = frame(8, 0, 0, &1_u32.to_be_bytes());
    let priority = frame(2, 0, 1, &[0, 0, 0, 0, 9]);
    let settings = [frame(SETTINGS, 0, 0, &[]), frame(PING, 0, 0, &[7; 8])].concat();
    for (what, noise) in [("settings", settings), ("windows", window), ("priorities", priority)] {
        let said = run(converse(address, &vec![noise; 50_000]));
        let code = goaway(&said);
        assert!(matches!(code, None | Some(11)), "{what}: {code:?}");
        serves(address);
    }
    let grown = larder.resident().saturating_sub(kept);
    assert!(grown < 32 << 20, "{grown} bytes kept");
}

#[test]
fn a_client_that_takes_nothing_is_cut() {
    let (_origin, address, _setup, _larder) = plain("[client]\nstall-timeout = \"300ms\"\n");
    let said = run(async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A window of 0, so the response can never be sent.
        let no_window = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
        let fields = head(&[(":authority", "a.example")]);
        let request = frame(HEADERS, END_STREAM | END_HEADERS, 1, &fields);
        stream.write_all(&[PREFACE, &no_window, &request].concat()).await.unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said).await;
        said
    });
    assert!(frames(&said).iter().any(|(kind, stream, _)| (*kind, *stream) == (HEADERS, 1)));
    serves(address);
}

#[test]
fn a_client_that_is_gone_is_found_by_a_ping_and_one_that_is_there_stays() {
    let pings = "[http2]\nping-interval = \"100ms\"\nping-timeout = \"200ms\"\n";
    let (_origin, address, _setup, _larder) = plain(pings);
    let said = run(converse(address, &[]));
    assert!(frames(&said).iter().any(|(kind, ..)| *kind == PING), "{said:?}");
    run(async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
        let (mut said, mut answered) = (Vec::new(), 0);
        // Beyond the time after which the other connection was closed.
        while answered < 8 {
            assert!(stream.read_buf(&mut said).await.unwrap() > 0, "{said:?}");
            let pings = frames(&said).into_iter().filter(|(kind, ..)| *kind == PING);
            for (_, _, payload) in pings.skip(answered).collect::<Vec<_>>() {
                answered += 1;
                stream.write_all(&frame(PING, 1, 0, &payload)).await.unwrap();
            }
        }
        assert_eq!(goaway(&said), None);
    });
}

#[test]
fn an_idle_connection_is_told_before_it_ends() {
    let (_origin, address, _setup, _larder) = plain("[client]\nidle-timeout = \"300ms\"\n");
    let said = run(converse(address, &[]));
    assert_eq!(goaway(&said), Some(0), "{said:?}");
}

#[test]
fn at_the_end_running_answers_are_finished_and_no_new_ones_begin() {
    let (origin, address, _setup, mut larder) = plain("");
    let target = "/page?size=30000&gate=end&cc=no-store";
    let fields = [(":path", target), (":authority", "a.example")];
    let usual = [(":method", "GET"), (":scheme", "http")];
    let head: Vec<u8> = usual.iter().chain(&fields).flat_map(|(n, v)| field(n, v)).collect();
    let request = frame(HEADERS, END_STREAM | END_HEADERS, 1, &head);
    let start = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &request].concat();
    run(async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&start).await.unwrap();
        let mut said = vec![0; 4096];
        let n = stream.read(&mut said).await.unwrap();
        said.truncate(n);
        origin.await_fetches(target, 1);
        larder.signal(Signal::TERM);
        let mut answered = 0;
        while stream.read_buf(&mut said).await.unwrap() > 0 {
            // A ping comes with the first GOAWAY; its acknowledgement makes it final.
            let pings = frames(&said).into_iter().filter(|(kind, ..)| *kind == PING).skip(answered);
            for (_, _, payload) in pings.collect::<Vec<_>>() {
                answered += 1;
                stream.write_all(&frame(PING, 1, 0, &payload)).await.unwrap();
            }
            if goaway(&said).is_some() {
                origin.open("end");
            }
        }
        let data = frames(&said).into_iter().filter(|(kind, stream, _)| (*kind, *stream) == (0, 1));
        assert_eq!(data.map(|(_, _, payload)| payload.len()).sum::<usize>(), 30_000);
        assert_eq!(goaway(&said), Some(0));
    });
    assert!(larder.await_exit().is_some_and(|status| status.success()), "{}", larder.said());
}

#[test]
fn a_tunnel_runs_on_a_stream() {
    let address = testkit::address::free();
    let target = testkit::listener::echo();
    let config = format!(
        "connect-ports = [{}]\n[[listener]]\naddress = \"{address}\"\nh2c = true\n",
        target.port()
    );
    let larder = Setup::forward().config(&config).start();
    run(async {
        let mut caller = two(address).await;
        let request = Request::connect(target.to_string()).body(Full::default()).unwrap();
        let answer = caller.send(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        let mut tunnel = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
        for word in ["hello", "again"] {
            tunnel.write_all(word.as_bytes()).await.unwrap();
            let mut back = vec![0; word.len()];
            tunnel.read_exact(&mut back).await.unwrap();
            assert_eq!(back, word.to_uppercase().into_bytes());
        }
        tunnel.shutdown().await.unwrap();
        assert_eq!(tunnel.read(&mut [0; 10]).await.unwrap(), 0);
        let request = Request::connect("127.0.0.1:25").body(Full::default()).unwrap();
        assert_eq!(caller.send(request).await.unwrap().status(), 403);
    });
    assert!(larder.metrics().contains("larder_tunnels 0\n"));
}
