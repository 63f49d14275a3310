//! Protocol upgrades: WebSocket and others, from HTTP/1.1 and HTTP/2 to either.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::thread;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper_util::rt::TokioIo;
use rustix::process::Signal;
use testkit::authority::Authority;
use testkit::io::eventually;
use testkit::larder::{Larder, Setup};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::caller::{Caller, run};
use crate::websocket_origin::{
    CLOSE, Origin, Speaks, TEXT, accept, field, frame, read_frame, read_head,
};

/// The example of RFC 6455, 1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const MASK: Option<[u8; 4]> = Some([1, 2, 3, 4]);

/// Fields that a WebSocket client sends in HTTP/1.1.
const HANDSHAKE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Protocol: caps, other\r\nSec-WebSocket-Extensions: x-none; a=1\r\n\
    Cookie: a=1; b=2\r\n";

trait Pipe: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Pipe for T {}

/// A proxy in front of an origin that changes protocols.
struct Scene {
    origin: Origin,
    larder: Larder,
    setup: Setup,
    address: SocketAddr,
    /// Prefix of paths, for a forward proxy.
    base: String,
}

impl Scene {
    fn reverse(speaks: Speaks, more: &str) -> Scene {
        Scene::new(true, speaks, more)
    }

    /// Sets up the scene; `more` is additional configuration, tables last.
    fn new(reverse: bool, speaks: Speaks, more: &str) -> Scene {
        let (authority, address) = (Authority::new(), testkit::address::free());
        let setup = Setup::forward();
        let chain = authority.issue_file(&setup.path(""), "localhost", &["localhost"]);
        let origin = Origin::start(speaks, Some(&chain));
        let scheme = if speaks == Speaks::Plain { "http" } else { "https" };
        let base = format!("{scheme}://localhost:{}", origin.address.port());
        let log = setup.path("access.log").display().to_string();
        let ca = authority.file_in(&setup.path(""));
        let own = if reverse { "reverse-host = 'upstream'\n" } else { "" };
        let setup = setup
            .config(&format!(
                "{own}{more}\n[[listener]]\naddress = \"{address}\"\nh2c = true\n\
                 [upstream]\ntls-ca = {ca:?}\n"
            ))
            .flag("access-log", &log)
            .flag("log-format", "json");
        let (setup, base) = match reverse {
            true => (setup.flag("reverse", &base), "http://a.example".to_owned()),
            false => (setup, base),
        };
        let larder = setup.start();
        Scene { origin, larder, setup, address, base }
    }

    fn is_reverse(&self) -> bool {
        self.base == "http://a.example"
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Returns the head of a request in HTTP/1.1.
    fn head(&self, path: &str, fields: &str) -> String {
        let host = self.base.split("//").nth(1).unwrap();
        let target =
            if self.is_reverse() { path.to_owned() } else { format!("{}{path}", self.base) };
        format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
    }

    /// Sends a request in HTTP/1.1; returns the response head, and the connection after it.
    async fn ask(&self, path: &str, fields: &str) -> io::Result<(String, TcpStream)> {
        let mut stream = self.connect().await;
        stream.write_all(self.head(path, fields).as_bytes()).await?;
        Ok((read_head(&mut stream).await?, stream))
    }

    /// Sends an extended CONNECT in HTTP/2.
    async fn call(&self, path: &str, protocol: &'static str) -> Response<Incoming> {
        let mut caller = Caller::two(self.connect().await).await;
        // After this request the client knows the server's settings.
        let base = &self.base;
        let _ =
            caller.ask(Request::get(format!("{base}/404")).body(Full::default()).unwrap()).await;
        let request = Request::connect(format!("{base}{path}"))
            .extension(Protocol::from_static(protocol))
            .header("sec-websocket-version", "13")
            .header("sec-websocket-protocol", "caps, other")
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .body(Full::<Bytes>::default());
        caller.send(request.unwrap()).await.unwrap()
    }

    /// Changes the protocol, in either version of HTTP.
    async fn open(&self, path: &str, two: bool) -> Box<dyn Pipe> {
        if two {
            let answer = self.call(path, "websocket").await;
            assert_eq!(answer.status(), 200, "{answer:?}");
            for gone in ["upgrade", "connection", "sec-websocket-accept", "content-length"] {
                assert!(!answer.headers().contains_key(gone), "{answer:?}");
            }
            assert_eq!(answer.headers()["sec-websocket-protocol"], "caps");
            return Box::new(TokioIo::new(hyper::upgrade::on(answer).await.unwrap()));
        }
        let (head, stream) = self.ask(path, HANDSHAKE).await.unwrap();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let of = |name| field(&head, name).unwrap_or_default();
        assert_eq!((of("connection").as_str(), of("upgrade").as_str()), ("upgrade", "websocket"));
        assert_eq!(of("sec-websocket-accept"), accept(KEY));
        assert_eq!((of("sec-websocket-protocol"), of("set-cookie")), {
            ("caps".to_owned(), "way=1".to_owned())
        });
        assert!(of("via").contains("larder") && of("cache-status").contains("TUNNEL"), "{head}");
        assert!(!head.to_lowercase().contains("content-length"), "{head}");
        Box::new(stream)
    }

    /// Returns the last head that the origin received.
    fn asked(&self) -> String {
        self.origin.heads().last().cloned().unwrap_or_default()
    }

    fn logged(&self, what: &str) -> bool {
        let log = self.setup.path("access.log");
        eventually(|| fs::read_to_string(&log).is_ok_and(|text| text.contains(what)))
    }

    fn counts(&self, what: &str) -> bool {
        eventually(|| self.larder.metrics().contains(what))
    }
}

/// Sends a message, and expects it back in capitals.
async fn chat(stream: &mut Box<dyn Pipe>, text: &str) {
    stream.write_all(&frame(TEXT, text.as_bytes(), MASK)).await.unwrap();
    let (kind, heard) = read_frame(stream).await.unwrap();
    assert_eq!((kind, heard), (TEXT, text.to_uppercase().into_bytes()));
}

/// Returns all remaining bytes; an error counts as the end.
async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all).await;
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn web_sockets_pass_in_every_combination() {
    thread::scope(|scope| {
        for reverse in [true, false] {
            for speaks in [Speaks::Plain, Speaks::One, Speaks::Both, Speaks::Two] {
                scope.spawn(move || web_sockets_pass(reverse, speaks));
            }
        }
    });
}

/// Checks WebSockets of clients of both versions through one kind of proxy.
fn web_sockets_pass(reverse: bool, speaks: Speaks) {
    let scene = Scene::new(reverse, speaks, "");
    for two in [false, true] {
        let what = format!("reverse: {reverse}, {speaks:?}, from HTTP/2: {two}");
        run(async {
            let mut stream = scene.open("/chat", two).await;
            chat(&mut stream, "hello").await;
            chat(&mut stream, "again").await;
            stream.write_all(&frame(CLOSE, &[3, 0xe8], MASK)).await.unwrap();
            assert_eq!(read_frame(&mut stream).await.unwrap().0, CLOSE);
            assert_eq!(rest(&mut stream).await, "", "{what}");
        });
        let head = scene.asked();
        let of = |name| field(&head, name).unwrap_or_default();
        let first = match speaks {
            Speaks::Two => "CONNECT /chat HTTP/2 websocket\r\n",
            _ => "GET /chat HTTP/1.1\r\n",
        };
        assert!(head.starts_with(first), "{what}: {head}");
        assert_eq!(of("sec-websocket-version"), "13", "{what}: {head}");
        assert_eq!(of("sec-websocket-protocol"), "caps, other", "{what}: {head}");
        assert_eq!(of("cookie"), "a=1; b=2", "{what}: {head}");
        assert!(of("via").contains("larder"), "{what}: {head}");
        assert_eq!(of("x-forwarded-for").is_empty(), !reverse, "{what}: {head}");
        if speaks == Speaks::Two {
            assert!(of("upgrade").is_empty() && of("sec-websocket-key").is_empty());
        } else {
            let hop = (of("connection"), of("upgrade"));
            assert_eq!(hop, ("upgrade".to_owned(), "websocket".to_owned()), "{what}");
            assert_eq!(of("sec-websocket-key") == KEY, !two, "{what}: {head}");
        }
        if !two {
            assert_eq!(of("sec-websocket-extensions"), "x-none; a=1", "{what}: {head}");
        }
    }
    // Two messages of 5 bytes and a close with 2, each with 2 bytes before it.
    assert!(scene.logged("\"status\":101,\"bytes_out\""));
    assert!(scene.logged("\"body_out\":18,\"outcome\":\"TUNNEL\",\"aborted\":false"));
    assert!(scene.counts("larder_tunnels 0\n"), "{}", scene.larder.metrics());
    assert!(scene.counts("larder_upgrades_total 2\n"), "{}", scene.larder.metrics());
}

#[test]
fn each_side_may_end_first_and_what_comes_early_is_kept() {
    for speaks in [Speaks::Plain, Speaks::Two] {
        let scene = Scene::reverse(speaks, "");
        for two in [false, true] {
            run(async {
                let mut stream = scene.open("/raw", two).await;
                stream.write_all(&[b'x'; 100_000][..]).await.unwrap();
                stream.shutdown().await.unwrap();
                let heard = rest(&mut stream).await;
                assert_eq!((heard.len(), &heard[99_999..]), (100_003, "Xend"));
                let mut stream = scene.open("/early", two).await;
                let mut heard = [0; 5];
                stream.read_exact(&mut heard).await.unwrap();
                assert_eq!(&heard, b"early");
                stream.shutdown().await.unwrap();
                assert_eq!(rest(&mut stream).await, "end");
                // If one side breaks, the other notices.
                let mut stream = scene.open("/reset", two).await;
                stream.write_all(b"x").await.unwrap();
                assert_eq!(rest(&mut stream).await, "");
                drop(scene.open("/raw", two).await);
            });
            assert!(scene.counts("larder_tunnels 0\n"), "{}", scene.larder.metrics());
        }
        // Bytes that a client sends before it has the response are kept as well.
        run(async {
            let mut stream = scene.connect().await;
            let head = scene.head("/raw", HANDSHAKE) + "before";
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            assert!(read_head(&mut stream).await.unwrap().starts_with("HTTP/1.1 101 "));
            assert_eq!(rest(&mut stream).await, "BEFOREend");
        });
    }
}

#[test]
fn other_protocols_pass_and_http_itself_does_not() {
    let scene = Scene::reverse(Speaks::Plain, "");
    run(async {
        let fields = "Connection: upgrade\r\nUpgrade: h2c, tcp/2\r\n";
        let (head, mut stream) = scene.ask("/raw", fields).await.unwrap();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert_eq!(field(&scene.asked(), "upgrade").unwrap(), "tcp/2");
        stream.write_all(b"x").await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(rest(&mut stream).await, "Xend");
        // With any method, as long as there is no body.
        let head =
            scene.head("/raw", "Connection: upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n");
        let mut stream = scene.connect().await;
        stream.write_all((head.replace("GET ", "POST ") + "x").as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        assert!(read_head(&mut stream).await.unwrap().starts_with("HTTP/1.1 101 "));
        assert_eq!(rest(&mut stream).await, "Xend");
        assert!(scene.asked().starts_with("POST /raw HTTP/1.1\r\n"), "{}", scene.asked());
        // The field is ignored, and the connection continues.
        for fields in [
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
            "Connection: upgrade\r\nUpgrade: TLS/1.2\r\n",
            "Connection: upgrade\r\nUpgrade: HTTP/2.0\r\n",
            "Connection: close, x\r\nUpgrade: websocket\r\n",
        ] {
            let (head, _) = scene.ask("/200", fields).await.unwrap();
            assert!(head.starts_with("HTTP/1.1 200 "), "{fields}: {head}");
            let asked = scene.asked().to_lowercase();
            assert!(!asked.contains("upgrade") && !asked.contains("http2-"), "{fields}: {asked}");
        }
        // A body excludes a change of protocol: it is handled like any other request.
        let fields = format!("{HANDSHAKE}Content-Length: 5\r\n");
        let mut stream = scene.connect().await;
        let head = scene.head("/200", &fields) + "hello";
        stream.write_all(head.as_bytes()).await.unwrap();
        assert!(read_head(&mut stream).await.unwrap().starts_with("HTTP/1.1 200 "));
        assert!(field(&scene.asked(), "upgrade").is_none(), "{}", scene.asked());
        // So does HTTP/1.0.
        let head = scene.head("/200", HANDSHAKE).replace("HTTP/1.1", "HTTP/1.0");
        let mut stream = scene.connect().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        assert!(read_head(&mut stream).await.unwrap().contains(" 200 "));
        assert!(field(&scene.asked(), "upgrade").is_none(), "{}", scene.asked());
        let answer = scene.call("/raw", "h2c").await;
        assert_eq!(answer.status(), 501);
        let answer = scene.call("/raw", "tcp").await;
        assert_eq!(answer.status(), 200);
    });
}

#[test]
fn another_answer_is_one_like_any_other_and_what_was_sent_behind_the_head_goes_nowhere() {
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a.example\r\n\r\n";
    for speaks in [Speaks::Plain, Speaks::Two] {
        let scene = Scene::reverse(speaks, "");
        run(async {
            for status in [426, 404] {
                for _ in 0..2 {
                    let mut stream = scene.connect().await;
                    let head = scene.head(&format!("/{status}"), HANDSHAKE);
                    stream.write_all((head + hidden).as_bytes()).await.unwrap();
                    let all = rest(&mut stream).await;
                    assert!(all.starts_with(&format!("HTTP/1.1 {status} ")), "{all}");
                    assert!(all.contains("connection: close") && all.contains("said"), "{all}");
                    assert!(all.contains("BYPASS(upgrade)"), "{all}");
                }
                let answer = scene.call(&format!("/{status}"), "websocket").await;
                assert_eq!(answer.status(), status);
            }
        });
        let heads = scene.origin.heads();
        assert!(!heads.iter().any(|head| head.contains("/hidden")), "{heads:?}");
        // None of it was stored: each request reached the origin.
        let asked = heads.iter().filter(|head| head.contains(" /426 ")).count();
        assert_eq!(asked, 3, "{heads:?}");
        assert!(scene.logged("\"reason\":\"upgrade\""));
    }
    // A 200 changes nothing in HTTP/1.1. In HTTP/2 it would, so it must not be sent there.
    let scene = Scene::reverse(Speaks::Plain, "");
    run(async {
        let mut stream = scene.connect().await;
        stream.write_all((scene.head("/200", HANDSHAKE) + hidden).as_bytes()).await.unwrap();
        let all = rest(&mut stream).await;
        assert!(all.starts_with("HTTP/1.1 200 ") && all.ends_with("said"), "{all}");
        assert_eq!(scene.call("/200", "websocket").await.status(), 502);
    });
    let heads = scene.origin.heads();
    assert!(!heads.iter().any(|head| head.contains("/hidden")), "{heads:?}");
}

#[test]
fn an_origin_that_changes_to_something_else_is_not_believed() {
    let scene = Scene::reverse(Speaks::Plain, "");
    run(async {
        for path in ["/other", "/unsaid"] {
            let (head, mut stream) = scene.ask(path, HANDSHAKE).await.unwrap();
            assert!(head.starts_with("HTTP/1.1 502 "), "{path}: {head}");
            assert!(rest(&mut stream).await.contains("cannot be passed on"));
            let why = "response: it changed the protocol, and not to a requested one";
            assert!(scene.larder.says(why), "{}", scene.larder.said());
            assert_eq!(scene.call(path, "websocket").await.status(), 502);
        }
        // In HTTP/2 only this proxy can detect that the origin did not understand.
        assert_eq!(scene.call("/wrong", "websocket").await.status(), 502);
        // An HTTP/1.1 client can detect it itself.
        let (head, _stream) = scene.ask("/wrong", HANDSHAKE).await.unwrap();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    });
    assert!(scene.counts("larder_tunnels 0\n"), "{}", scene.larder.metrics());
}

#[test]
fn tunnels_are_limited_in_number_and_time() {
    let limits = "[client]\ntunnels = 2\ntunnel-idle = '3s'\n";
    let scene = Scene::reverse(Speaks::Two, limits);
    run(async {
        let mut one = scene.open("/raw", false).await;
        let mut two = scene.open("/raw", true).await;
        let refused = async {
            let (head, mut stream) = scene.ask("/raw", HANDSHAKE).await.unwrap();
            assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("retry-after"), "{head}");
            assert!(rest(&mut stream).await.contains("client.tunnels"));
            assert_eq!(scene.call("/raw", "websocket").await.status(), 503);
        };
        let active = async {
            loop {
                one.write_all(b"x").await.unwrap();
                two.write_all(b"x").await.unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            () = refused => {}
            () = active => {}
        }
        // Idle ones make way.
        let mut three = scene.open("/raw", false).await;
        let mut four = scene.open("/raw", true).await;
        assert!(!rest(&mut one).await.contains("503") && !rest(&mut two).await.contains("503"));
        assert!(scene.counts("larder_tunnels_made_way_total 2\n"), "{}", scene.larder.metrics());
        // No bytes are transferred, so they end.
        assert_eq!((rest(&mut three).await, rest(&mut four).await), Default::default());
        assert!(scene.counts("larder_tunnels 0\n"), "{}", scene.larder.metrics());
        // A response without a tunnel frees its slot.
        for _ in 0..3 {
            assert!(scene.ask("/404", HANDSHAKE).await.unwrap().0.contains(" 404 "));
        }
        drop(scene.open("/raw", false).await);
    });
    let scene = Scene::reverse(Speaks::Plain, "[client]\ntunnel-time = '500ms'\n");
    run(async {
        let mut stream = scene.open("/raw", false).await;
        // Bytes are transferred all the time.
        let mut buffer = [0; 10];
        while stream.write_all(b"x").await.is_ok() {
            match stream.read(&mut buffer).await {
                Ok(1..) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                Ok(0) | Err(_) => break,
            }
        }
    });
}

#[test]
fn a_rule_and_the_access_rules_refuse_them() {
    let rules = "[[rule]]\nname = 'still'\npaths = ['/chat']\nrefuse-upgrades = true\n\
        [[access]]\naction = 'deny'\nhosts = ['b.example']\n";
    let scene = Scene::reverse(Speaks::Plain, rules);
    run(async {
        for path in ["/chat", "/x/../chat", "//chat", "/%63hat"] {
            let (head, mut stream) = scene.ask(path, HANDSHAKE).await.unwrap();
            assert!(head.starts_with("HTTP/1.1 403 "), "{path}: {head}");
            assert!(head.contains("DENIED(upgrade)"), "{head}");
            assert!(rest(&mut stream).await.contains("is refused here."));
        }
        assert_eq!(scene.call("/chat", "websocket").await.status(), 403);
        // A request without an upgrade is forwarded.
        assert!(scene.ask("/chat", "").await.unwrap().0.starts_with("HTTP/1.1 400 "));
        drop(scene.open("/raw", false).await);
        let head = scene.head("/raw", HANDSHAKE).replace("a.example", "b.example");
        let mut stream = scene.connect().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        assert!(read_head(&mut stream).await.unwrap().starts_with("HTTP/1.1 403 "));
    });
    assert!(!scene.origin.heads().iter().any(|head| head.contains("chat HTTP/1.1\r\nhost: b")));
}

#[test]
fn rules_hold_for_what_opens_a_tunnel() {
    let rules = "[[rule]]\npaths = ['/raw']\nrequest-set = ['X-Added: 1']\n\
        request-remove = ['Cookie']\nanswer-remove = ['Set-Cookie']\nanswer-set = ['X-Told: 2']\n";
    for speaks in [Speaks::Plain, Speaks::Two] {
        let scene = Scene::reverse(speaks, rules);
        run(async {
            let fields = HANDSHAKE.to_owned() + "Content-Length: 0\r\n";
            let (head, _stream) = scene.ask("/raw", &fields).await.unwrap();
            assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
            assert_eq!((field(&head, "x-told"), field(&head, "set-cookie")), {
                (Some("2".to_owned()), None)
            });
            let answer = scene.call("/raw", "websocket").await;
            assert!(answer.status() == 200 && answer.headers()["x-told"] == "2", "{answer:?}");
        });
        let heads = scene.origin.heads();
        let opening = heads.iter().filter(|head| head.contains(" /raw "));
        let of = |head: &String| (field(head, "x-added"), field(head, "cookie"));
        let seen: Vec<_> = opening.map(of).collect();
        assert_eq!(seen, vec![(Some("1".to_owned()), None); 2], "{heads:?}");
    }
}

#[test]
fn the_end_of_a_drain_ends_them() {
    for speaks in [Speaks::Plain, Speaks::Two] {
        let mut scene = Scene::reverse(speaks, "drain = '300ms'\n");
        run(async {
            let mut one = scene.open("/chat", false).await;
            let mut two = scene.open("/chat", true).await;
            scene.larder.signal(Signal::TERM);
            // Tunnels continue until then.
            chat(&mut one, "still").await;
            chat(&mut two, "here").await;
            assert_eq!((rest(&mut one).await, rest(&mut two).await), Default::default());
        });
        assert!(scene.larder.await_exit().is_some_and(|status| status.success()));
    }
}
