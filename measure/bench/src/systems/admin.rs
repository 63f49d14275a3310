//! Requests to the admin interface of a Larder.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Timeout for a response.
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends a request with this body. Returns the status and the body of the response.
///
/// # Errors
/// Fails if there is no response.
pub fn ask(to: SocketAddr, method: &str, path: &str, body: &str) -> Result<(u16, String), String> {
    let fail = |error: std::io::Error| format!("the admin interface at {to}: {error}");
    let mut stream = TcpStream::connect(to).map_err(fail)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).map_err(fail)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(fail)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| format!("{method} {path} of {to}: {answer}"))?;
    Ok((status, body.to_owned()))
}

/// Waits until a node is ready, with all of its listeners.
///
/// # Errors
/// Fails after `patience`, or when `interrupted` is set.
pub fn await_ready(
    node: SocketAddr,
    patience: Duration,
    interrupted: &AtomicBool,
) -> Result<(), String> {
    let end = Instant::now() + patience;
    while !ask(node, "GET", "/readyz", "").is_ok_and(|(status, _)| status == 200) {
        if Instant::now() > end || interrupted.load(Ordering::Relaxed) {
            return Err(format!("the node with the admin interface at {node} is not ready"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Waits until a node sees `nodes` nodes serve, and has caught up on purges.
///
/// # Errors
/// Fails after `patience`, or when `interrupted` is set.
pub fn gather(
    node: SocketAddr,
    nodes: usize,
    patience: Duration,
    interrupted: &AtomicBool,
) -> Result<(), String> {
    let are_there = |state: &Value| {
        let members = state["members"].as_array().map_or(&[][..], Vec::as_slice);
        members.len() == nodes
            && members.iter().all(|member| member["state"] == "serving")
            && state["caught_up"] == true
    };
    await_fleet(node, patience, interrupted, are_there)
        .map_err(|why| format!("the nodes do not find each other: {why}"))
}

/// Waits until the fleet's state, as this node reports it, is `as_expected`.
///
/// # Errors
/// Fails after `patience`, or when `interrupted` is set; the text has the last state.
pub fn await_fleet(
    node: SocketAddr,
    patience: Duration,
    interrupted: &AtomicBool,
    as_expected: impl Fn(&Value) -> bool,
) -> Result<(), String> {
    let end = Instant::now() + patience;
    loop {
        let state = ask(node, "GET", "/fleet", "").map_or_else(|why| why, |(_, state)| state);
        if serde_json::from_str(&state).is_ok_and(|state| as_expected(&state)) {
            return Ok(());
        }
        if Instant::now() > end || interrupted.load(Ordering::Relaxed) {
            return Err(state);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
