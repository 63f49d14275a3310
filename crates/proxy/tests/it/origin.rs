//! An origin that a test scripts byte by byte. It counts and records the requests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::client::find;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub head: String,
    pub body: Vec<u8>,
    /// Number of this request over all connections, from 0.
    pub number: usize,
    /// Number of this request on its connection, from 0.
    pub on_connection: usize,
}

impl Asked {
    pub fn field(&self, name: &str) -> Option<String> {
        self.head.lines().skip(1).find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }
}

/// Action of the origin after a request.
pub enum Then {
    /// Waits for the next one.
    Stay,
    /// Closes the connection.
    Close,
}

type Script = dyn Fn(&Asked, &mut TcpStream) -> Then + Send + Sync;

pub struct Origin {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Origin {
    /// Starts an origin, which lives as long as the test process.
    pub fn start(
        script: impl Fn(&Asked, &mut TcpStream) -> Then + Send + Sync + 'static,
    ) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Script> = Arc::new(script);
        let log = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, log) = (script.clone(), log.clone());
                thread::spawn(move || converse(stream, &*script, &log));
            }
        });
        Origin { address, asked }
    }

    /// Starts an origin that responds to every request with the same bytes.
    pub fn always(answer: impl Into<Vec<u8>>) -> Origin {
        let answer = answer.into();
        Origin::start(move |_, stream| {
            let _ = stream.write_all(&answer);
            Then::Stay
        })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn converse(mut stream: TcpStream, script: &Script, log: &Mutex<Vec<Asked>>) {
    let _ = stream.set_nodelay(true);
    let mut read = Vec::new();
    let mut on_connection = 0;
    while let Some(mut asked) = next_request(&mut stream, &mut read) {
        {
            let mut log = log.lock().unwrap();
            asked.number = log.len();
            asked.on_connection = on_connection;
            log.push(asked.clone());
        }
        on_connection += 1;
        if matches!(script(&asked, &mut stream), Then::Close) {
            return;
        }
    }
}

fn next_request(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<Asked> {
    let end = loop {
        if let Some(end) = find(read, b"\r\n\r\n") {
            break end + 4;
        }
        more(stream, read)?;
    };
    let head = String::from_utf8(read.drain(..end).collect()).unwrap();
    let mut words = head.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut asked = Asked { method, path, head, body: Vec::new(), number: 0, on_connection: 0 };
    if let Some(length) = asked.field("content-length") {
        let length: usize = length.parse().unwrap();
        while read.len() < length {
            more(stream, read)?;
        }
        asked.body = read.drain(..length).collect();
    } else if asked.field("transfer-encoding").is_some() {
        let end = loop {
            if let Some(end) = find(read, b"0\r\n\r\n") {
                break end + 5;
            }
            more(stream, read)?;
        };
        asked.body = read.drain(..end).collect();
    }
    Some(asked)
}

fn more(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0u8; 16 * 1024];
    match stream.read(&mut buffer) {
        Ok(n) if n > 0 => {
            read.extend_from_slice(&buffer[..n]);
            Some(())
        }
        _ => None,
    }
}

/// Returns a response with a body and its length.
pub fn ok(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}
