//! The origin of counted requests: it serves `/store/SIZE/ID`, `/vary/SIZE/ID` and
//! `/pass/SIZE/ID`, each with the same few fields, because every byte of a response counts.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::object::{Object, fill};

/// Starts the origin, which ends with the process. Returns its address.
///
/// # Errors
///
/// When no socket can be opened.
pub fn start() -> Result<SocketAddr, String> {
    let fail = |e: io::Error| format!("the origin: {e}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A connection that breaks is missed by the client.
            thread::spawn(move || drop(serve(stream)));
        }
    });
    Ok(address)
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    while let Some(request) = lines.next().transpose()? {
        for field in lines.by_ref() {
            if field?.is_empty() {
                break;
            }
        }
        let Some(answer) = answer(&request) else { return Ok(()) };
        stream.write_all(&answer)?;
    }
    Ok(())
}

/// Returns the response to a request line; `None` if it asks for no object of this origin.
fn answer(request: &str) -> Option<Vec<u8>> {
    let mut parts = request.split(' ').nth(1)?.trim_start_matches('/').split('/');
    let (word, size, id) = (parts.next()?, parts.next()?, parts.next()?);
    let fields = match word {
        "store" => "Cache-Control: max-age=86400\r\n",
        "vary" => "Cache-Control: max-age=86400\r\nVary: Accept-Encoding\r\n",
        "pass" => "Cache-Control: no-store\r\n",
        _ => return None,
    };
    let (size, id): (usize, u64) = (size.parse().ok()?, id.parse().ok()?);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{fields}ETag: \"{id}\"\r\n\
         Content-Length: {size}\r\n\r\n"
    );
    let mut answer = head.into_bytes();
    answer.extend(body(id, size));
    Some(answer)
}

/// Returns the body of an object.
pub fn body(id: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    fill(Object { id, ..Object::default() }.content(0), 0, &mut bytes);
    bytes
}

#[test]
fn the_path_selects_the_response() {
    let head = |path: &str| {
        let answer = answer(&format!("GET {path} HTTP/1.1"))?;
        String::from_utf8_lossy(&answer).split("\r\n\r\n").next().map(str::to_owned)
    };
    let expected = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=86400\
                    \r\nVary: Accept-Encoding\r\nETag: \"7\"\r\nContent-Length: 300";
    assert_eq!(head("/vary/300/7").as_deref(), Some(expected));
    assert!(head("/pass/300/7").unwrap().contains("no-store"));
    assert_eq!(head("/favicon.ico"), None);
    assert_eq!(body(7, 300).len(), 300);
}
