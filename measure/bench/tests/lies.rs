//! A proxy that lies is caught, whatever it lies about; one that does not is not.
//!
//! The proxy is a few lines that pass a request on and change the answer. The bench is the real
//! program, run as a user runs it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;

use testkit::address;

/// Changes a response: its head without the empty line, and its body.
type Lie = fn(&mut Lies, &str, &mut Vec<u8>, &mut Vec<u8>);

/// State of the proxy.
#[derive(Default)]
struct Lies {
    answers: u32,
    /// The first answer for the path.
    kept: Option<(String, Vec<u8>, Vec<u8>)>,
    /// The connection ends behind the answer, and what still comes is read and not looked at.
    ends: bool,
}

/// Answers of one in so many are changed.
const EVERY: u32 = 20;

fn honest(_: &mut Lies, _: &str, _: &mut Vec<u8>, _: &mut Vec<u8>) {}

fn wrong_byte(lies: &mut Lies, _: &str, _: &mut Vec<u8>, body: &mut Vec<u8>) {
    if lies.answers.is_multiple_of(EVERY) {
        let last = body.pop().map(|last| last ^ 1);
        body.extend(last);
    }
}

/// A body that breaks off, of the length that was told.
fn cut_short(lies: &mut Lies, _: &str, _: &mut Vec<u8>, body: &mut Vec<u8>) {
    if lies.answers.is_multiple_of(EVERY) {
        body.truncate(body.len() / 2);
    }
}

/// A shorter body whose length is right.
fn shorter(lies: &mut Lies, path: &str, head: &mut Vec<u8>, body: &mut Vec<u8>) {
    cut_short(lies, path, head, body);
    let text = String::from_utf8(head.clone()).expect("a head is text");
    let lines = text.lines().filter(|line| !line.starts_with("Content-Length"));
    let lines = lines.collect::<Vec<_>>().join("\r\n");
    *head = format!("{lines}\r\nContent-Length: {}", body.len()).into_bytes();
}

/// The first answer for ever, whatever its `Expires` says.
fn old_version(lies: &mut Lies, path: &str, head: &mut Vec<u8>, body: &mut Vec<u8>) {
    match &lies.kept {
        Some((kept, old_head, old_body)) if kept == path => {
            (*head, *body) = (old_head.clone(), old_body.clone());
        }
        Some(_) => {}
        None => lies.kept = Some((path.to_owned(), head.clone(), body.clone())),
    }
}

/// The answer for another object.
fn other_object(lies: &mut Lies, path: &str, head: &mut Vec<u8>, body: &mut Vec<u8>) {
    match &lies.kept {
        Some((kept, old_head, old_body)) if kept != path && lies.answers.is_multiple_of(EVERY) => {
            (*head, *body) = (old_head.clone(), old_body.clone());
        }
        Some(_) => {}
        None => lies.kept = Some((path.to_owned(), head.clone(), body.clone())),
    }
}

/// Bytes that are no response, on a connection that has carried responses.
fn no_http(lies: &mut Lies, _: &str, head: &mut Vec<u8>, body: &mut Vec<u8>) {
    if lies.answers.is_multiple_of(EVERY) {
        (*head, *body) = (b"\0garbage".to_vec(), Vec::new());
    }
}

/// No lie: a connection that was to be kept may end at any time (RFC 9112, 9.3).
fn ends_now_and_then(lies: &mut Lies, _: &str, _: &mut Vec<u8>, _: &mut Vec<u8>) {
    lies.ends = lies.answers.is_multiple_of(7);
}

/// Starts a proxy of this kind before the origin; it ends with the test.
fn proxy(origin: SocketAddr, lie: Lie) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let lies = Arc::new(Mutex::new(Lies::default()));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let lies = Arc::clone(&lies);
            // A connection that ends is no failure of the test.
            thread::spawn(move || drop(serve(stream, origin, lie, &lies)));
        }
    });
    address
}

fn serve(
    mut client: TcpStream,
    origin: SocketAddr,
    lie: Lie,
    lies: &Mutex<Lies>,
) -> std::io::Result<()> {
    let mut server = TcpStream::connect(origin)?;
    loop {
        let request = read_head(&mut client)?;
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        server.write_all(request.as_bytes())?;
        let mut head = read_head(&mut server)?;
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
        server.read_exact(&mut body)?;
        head.truncate(head.len() - 4);
        let (all, mut head) = (body.len(), head.into_bytes());
        let ends = {
            let mut lies = lies.lock().expect("no thread panics");
            lies.answers += 1;
            lie(&mut lies, &path, &mut head, &mut body);
            lies.ends
        };
        client.write_all(&[&head, &b"\r\n\r\n"[..], &body].concat())?;
        if ends {
            client.shutdown(Shutdown::Write)?;
            return std::io::copy(&mut client, &mut std::io::sink()).map(drop);
        }
        let told = format!("Content-Length: {all}");
        if body.len() < all && String::from_utf8_lossy(&head).contains(&told) {
            return Ok(());
        }
    }
}

fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// A run of the bench over a proxy of this kind, with these arguments besides.
fn bench(lie: Lie, arguments: &[&str]) -> Output {
    let origin = address::free();
    let target = proxy(origin, lie);
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder-bench"));
    command.args(["--target", &format!("http://{target}"), "--origin", &origin.to_string()]);
    command.args(["--seed", "3", "--quiet", "--connections", "4", "--timeout", "5s"]);
    command.args(arguments).output().expect("the program runs")
}

const ZIPF: &[&str] =
    &["--workload", "zipf", "--objects", "50", "--sizes", "uniform:2K:9K", "--requests", "400"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn is_caught(output: &Output, word: &str) {
    let (said, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}{error}");
    assert!(said.contains(word), "{word:?} is missing: {said}{error}");
}

#[test]
fn an_honest_proxy_is_right() {
    let output = bench(honest, ZIPF);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let ranges = [ZIPF, &["--ranges", "0.5"]].concat();
    assert_eq!(bench(honest, &ranges).status.code(), Some(0));
}

#[test]
fn connections_that_end_behind_an_answer_are_opened_anew() {
    let output = bench(ends_now_and_then, ZIPF);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn bytes_that_are_no_response_are_errors_and_not_asked_for_again() {
    is_caught(&bench(no_http, ZIPF), "20 errors: no HTTP");
}

#[test]
fn a_wrong_byte_is_caught_where_it_is() {
    let output = bench(wrong_byte, ZIPF);
    is_caught(&output, "WRONG: wrong bytes in /");
    is_caught(&output, "at byte ");
    is_caught(&output, ": expected ");
    assert!(text(&output.stderr).contains("20 answers were wrong"), "{}", text(&output.stderr));
}

#[test]
fn a_body_that_breaks_off_is_caught() {
    is_caught(&bench(cut_short, ZIPF), "errors: cut short");
    is_caught(&bench(shorter, ZIPF), "WRONG: wrong length in /");
}

#[test]
fn another_objects_answer_is_caught() {
    is_caught(&bench(other_object, ZIPF), "WRONG: wrong ");
}

#[test]
fn a_version_that_has_expired_is_caught() {
    // One object, which changes every second or so, at 20 requests a second.
    let arguments = [
        "--workload",
        "zipf",
        "--objects",
        "1",
        "--sizes",
        "fixed:700",
        "--lifetime",
        "1s",
        "--rate",
        "20",
        "--ramp",
        "0",
        "--plateau",
        "6s",
    ];
    is_caught(&bench(old_version, &arguments), "WRONG: wrong version in /");
    let honest = bench(honest, &arguments);
    assert_eq!(honest.status.code(), Some(0), "{}", text(&honest.stdout));
}

/// A thousandth of the requests, and as many of the answers: 12 of 6,000 in the mean.
#[test]
fn what_polymix_4_aborts_is_counted_and_is_no_error() {
    for protocol in [&["--http", "1.0"][..], &["--http", "1.1"]] {
        let origin = address::free().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder-bench"));
        command.args(["--target", &origin, "--origin", &origin, "--workload", "polymix-4"]);
        command.args(["--seed", "3", "--quiet", "--think-scale", "0", "--requests", "6000"]);
        let output = command.args(protocol).output().expect("the program runs");
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
        let line = said.lines().find(|line| line.starts_with("aborted")).expect("a line");
        let count: u64 =
            line.split_whitespace().last().and_then(|n| n.parse().ok()).expect("a count");
        assert!((3..40).contains(&count), "seed 3: {line}");
    }
}

#[test]
fn a_wrong_command_line_is_named() {
    for (arguments, word) in [
        (&["--workload", "zipf", "file.log"][..], "file.log"),
        (&["--workload", "replay"], "replay"),
        (&["--workload", "no-such"], "no-such"),
        (&["--workload", "zipf", "--sizes", "odd:1"], "odd:1"),
    ] {
        let output = bench(honest, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?} {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
    }
}
