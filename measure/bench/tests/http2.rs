//! Servers of HTTP/2 that lie, break off or leave: what is wrong is caught, what HTTP allows is not
//! taken amiss.
//!
//! The server is a few lines on the `h2` crate that pass a request on to the origin and change the
//! answer. The bench is the real program, run as a user runs it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::thread;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use testkit::address;

/// Fault in one response of twenty.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    WrongByte,
    /// The stream is reset in the middle of the body.
    Reset,
    /// A body that ends early, in order.
    Shorter,
    /// The connection ends in order after so many requests.
    Leaves(u32),
    /// One request in twenty is refused unread.
    Refuses,
}

/// Starts a server of this kind before the origin; it ends with the test.
fn serve(origin: SocketAddr, fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
            let runtime = runtime.expect("a runtime");
            thread::spawn(move || {
                // A connection that ends is no failure of the test.
                drop(runtime.block_on(connection(stream, origin, fault)));
            });
        }
    });
    address
}

async fn connection(stream: TcpStream, origin: SocketAddr, fault: Fault) -> Result<(), h2::Error> {
    stream.set_nonblocking(true).expect("a socket");
    let stream = tokio::net::TcpStream::from_std(stream).expect("a socket");
    let mut connection = server::handshake(stream).await?;
    let mut count = 0_u32;
    while let Some(request) = connection.accept().await {
        let (request, mut answer) = request?;
        count += 1;
        if matches!(fault, Fault::Leaves(after) if count == after) {
            connection.graceful_shutdown();
        }
        if fault == Fault::Refuses && count.is_multiple_of(20) {
            answer.send_reset(Reason::REFUSED_STREAM);
            continue;
        }
        let fault = if count.is_multiple_of(20) { fault } else { Fault::None };
        answer_as_origin(&request, answer, origin, fault)?;
    }
    Ok(())
}

/// Sends what the origin answers, with this fault.
fn answer_as_origin(
    request: &http::Request<RecvStream>,
    mut answer: SendResponse<Bytes>,
    origin: SocketAddr,
    fault: Fault,
) -> Result<(), h2::Error> {
    let mut server = TcpStream::connect(origin).expect("the origin listens");
    let number = request.headers()["bench-request"].to_str().expect("a number");
    let path = request.uri().path();
    let text = format!("GET {path} HTTP/1.1\r\nHost: o\r\nBench-Request: {number}\r\n\r\n");
    server.write_all(text.as_bytes()).expect("the origin reads");
    let mut from = BufReader::new(server);
    let mut response = http::Response::builder();
    let mut length = 0;
    let mut lines = (&mut from).lines().map_while(Result::ok);
    for line in lines.by_ref().skip(1).take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ").expect("a field");
        if name == "Content-Length" {
            length = value.parse().expect("a length");
        }
        if name != "Connection" && (fault != Fault::Shorter || name != "Content-Length") {
            response = response.header(name, value);
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).expect("the whole body");
    match fault {
        Fault::WrongByte => body[length - 1] ^= 1,
        Fault::Shorter | Fault::Reset => body.truncate(length / 2),
        _ => {}
    }
    let mut to = answer.send_response(response.body(()).expect("an answer"), false)?;
    let is_reset = fault == Fault::Reset;
    to.send_data(Bytes::from(body), !is_reset)?;
    if is_reset {
        to.send_reset(Reason::INTERNAL_ERROR);
    }
    Ok(())
}

/// A run of the bench over a server of this kind, with these arguments besides.
fn bench(fault: Fault, arguments: &[&str]) -> Output {
    let origin = address::free();
    let target = serve(origin, fault);
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder-bench"));
    command.args(["--target", &format!("http://{target}"), "--origin", &origin.to_string()]);
    command.args(["--seed", "3", "--quiet", "--connections", "3", "--timeout", "5s", "--http2"]);
    command.args(["--workload", "zipf", "--objects", "50", "--sizes", "uniform:2K:40K"]);
    command.args(["--requests", "400"]).args(arguments).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn is_right(output: &Output) {
    let (said, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}{error}");
    assert!(!said.contains("WRONG"), "{said}");
}

#[track_caller]
fn is_caught(output: &Output, word: &str) {
    let (said, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}{error}");
    assert!(said.contains(word), "{word:?} is missing: {said}{error}");
}

#[test]
fn an_honest_server_is_right_on_one_stream_and_on_many() {
    is_right(&bench(Fault::None, &[]));
    is_right(&bench(Fault::None, &["--streams", "8", "--requests-per-connection", "50"]));
}

#[test]
fn what_is_wrong_on_a_stream_is_caught() {
    is_caught(&bench(Fault::WrongByte, &["--streams", "4"]), "WRONG: wrong bytes in /");
    is_caught(&bench(Fault::Shorter, &[]), "WRONG: wrong length in /");
    is_caught(&bench(Fault::Reset, &["--streams", "4"]), "errors: stream reset");
}

#[test]
fn a_request_that_a_server_did_not_read_is_sent_again() {
    is_right(&bench(Fault::Leaves(25), &[]));
    is_right(&bench(Fault::Leaves(25), &["--streams", "8"]));
    is_right(&bench(Fault::Refuses, &["--streams", "4"]));
}

#[test]
fn a_server_that_speaks_only_http_1_is_an_error() {
    let origin = address::free();
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder-bench"));
    command.args(["--target", &format!("http://{origin}"), "--origin", &origin.to_string()]);
    command.args(["--workload", "zipf", "--requests", "20", "--quiet", "--http2", "--timeout"]);
    let output = command.arg("3s").output().expect("the program runs");
    is_caught(&output, "errors: ");
}

#[test]
fn streams_without_http_2_are_a_mistake() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder-bench"));
    command.args(["--target", "127.0.0.1:1", "--workload", "zipf", "--streams", "4"]);
    let output = command.output().expect("the program runs");
    assert!(text(&output.stderr).contains("--http2"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(2));
}
