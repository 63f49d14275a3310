//! Messages drawn from a grammar, and random damage to them.

use std::hash::{BuildHasher as _, RandomState};

use fastrand::Rng;

/// Runs `test` `times` times with one generator, whose seed is printed on failure.
pub fn for_seed(times: usize, mut test: impl FnMut(&mut Rng)) {
    struct Guard(u64);
    impl Drop for Guard {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("replay with LARDER_SEED={}", self.0);
            }
        }
    }
    let given = std::env::var("LARDER_SEED").ok();
    let seed = given.map_or_else(|| RandomState::new().hash_one(()), |text| text.parse().unwrap());
    let (_guard, mut rng) = (Guard(seed), Rng::with_seed(seed));
    (0..times).for_each(|_| test(&mut rng));
}

/// Returns one of the values at random.
pub fn one_of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}

const NAMES: &[&str] =
    &["Accept", "x-a", "X-B", "x-B", "Cookie", "Via", "a", "A!#$%&'*+-.^_`|~9", "Expect", "TE"];
const VALUES: &[&str] =
    &["", "a", "a, b", "\"q;\"", "close", "chunked", "5", "a\tb", "\u{fc}", ": x", "100-continue"];
const SPACES: &[&str] = &["", " ", " ", " ", "\t", "  "];

/// Writes fields that do not affect framing, sometimes with a connection option.
fn write_fields(rng: &mut Rng, text: &mut Vec<u8>) {
    for _ in 0..rng.usize(..6) {
        let field = [one_of(rng, NAMES), ":", one_of(rng, SPACES), one_of(rng, VALUES)];
        text.extend(field.concat().bytes());
        text.extend(one_of(rng, SPACES).bytes());
        text.extend(b"\r\n");
    }
    if rng.u8(..8) == 0 {
        let option = one_of(rng, &["close", "keep-alive", "x, Close", "te", ""]);
        text.extend(format!("CONNECTION: {option}\r\n").bytes());
    }
}

/// Writes the end of the head and a body with the fields that frame it. With `may_close`, the body
/// may end with the connection; returns whether it does.
fn write_body(rng: &mut Rng, text: &mut Vec<u8>, may_close: bool) -> bool {
    let body: Vec<u8> = (0..rng.usize(..40)).map(|_| one_of(rng, b"ab\r\n0;:")).collect();
    match rng.u8(..8) {
        0 if may_close => {
            text.extend(b"\r\n");
            text.extend(body);
            return true;
        }
        0 | 1 => text.extend(b"Content-Length: 0\r\n\r\n"),
        2..5 => {
            let name = one_of(rng, &["Content-Length", "content-length"]);
            for _ in 0..1 + usize::from(rng.u8(..6) == 0) {
                text.extend(format!("{name}: {}\r\n", body.len()).bytes());
            }
            text.extend(b"\r\n");
            text.extend(body);
        }
        _ => {
            if rng.u8(..8) == 0 {
                text.extend(format!("content-length: {}\r\n", rng.u8(..9)).bytes());
            }
            let coding = one_of(rng, &["chunked", "Chunked", "gzip, chunked", "x\r\nte: a"]);
            let coding = if coding.contains('\r') { "gzip,chunked" } else { coding };
            text.extend(format!("Transfer-Encoding: {coding}\r\n\r\n").bytes());
            write_chunks(rng, text, &body);
        }
    }
    false
}

/// Writes a body in chunks of random sizes, with extensions and trailers.
pub fn write_chunks(rng: &mut Rng, text: &mut Vec<u8>, body: &[u8]) {
    let mut rest = body;
    let extension = |rng: &mut Rng| one_of(rng, &["", "", "", ";a", "; a=\"b\"", " ", "\t;x=y;z"]);
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rng.usize(1..=rest.len()));
        let zeros = one_of(rng, &["", "", "0", "000"]);
        let size = match rng.bool() {
            true => format!("{zeros}{:x}{}\r\n", chunk.len(), extension(rng)),
            false => format!("{zeros}{:X}{}\r\n", chunk.len(), extension(rng)),
        };
        text.extend(size.bytes());
        text.extend(chunk);
        text.extend(b"\r\n");
        rest = after;
    }
    text.extend(format!("0{}\r\n", extension(rng)).bytes());
    if rng.u8(..4) == 0 {
        text.extend(b"X-Trailer: y\r\nz:\r\n");
    }
    text.extend(b"\r\n");
}

pub fn requests(rng: &mut Rng) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..rng.usize(1..4) {
        let method = one_of(rng, &["GET", "HEAD", "POST", "PUT", "X-ANY", "DELETE", "OPTIONS"]);
        let targets = ["/", "/a?b=c&d", "http://a.example:81/x?y", "/%41//..", "*", "/a;b|c"];
        let version = one_of(rng, &["1.1", "1.1", "1.1", "1.0"]);
        let target = one_of(rng, &targets);
        text.extend(format!("{method} {target} HTTP/{version}\r\nHost: a\r\n").bytes());
        write_fields(rng, &mut text);
        match rng.bool() {
            true => text.extend(b"\r\n"),
            false => _ = write_body(rng, &mut text, false),
        }
    }
    text
}

/// Returns a response, sometimes after 1xx responses.
pub fn response(rng: &mut Rng) -> Vec<u8> {
    let mut text = Vec::new();
    if rng.u8(..5) == 0 {
        text.extend(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    }
    let status = one_of(rng, &[200, 200, 200, 204, 205, 206, 304, 404, 500, 999]);
    let reason = one_of(rng, &[" OK", "", " ", " Not  Found", " \u{fc}"]);
    let version = one_of(rng, &["1.1", "1.1", "1.1", "1.0"]);
    text.extend(format!("HTTP/{version} {status}{reason}\r\n").bytes());
    write_fields(rng, &mut text);
    write_body(rng, &mut text, true);
    text
}

pub fn damage(rng: &mut Rng, text: &mut Vec<u8>) {
    const BYTES: &[u8] = b"\r\n\n\r \t:;,0123456789afx\0\x0b\x0c\x7f\x80\xff-+\"/HTP.";
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(..text.len());
        match rng.u8(..5) {
            0 => text[at] = one_of(rng, BYTES),
            1 => text.insert(at, one_of(rng, BYTES)),
            2 if text.len() > 1 => _ = text.remove(at),
            3 => {
                let end = rng.usize(at..=text.len().min(at + 30));
                let part = text[at..end].to_vec();
                let to = rng.usize(..=text.len());
                text.splice(to..to, part);
            }
            _ => {
                let field = one_of(
                    rng,
                    &[
                        "\r\nContent-Length: 3",
                        "\r\nTransfer-Encoding: chunked",
                        "\r\ntransfer-encoding : chunked",
                        "\r\nTransfer-Encoding:\x0bchunked",
                        "\r\nContent-Length: +3",
                        "\r\n:path: /",
                        "\nX: y",
                    ],
                );
                let line = text.windows(2).position(|pair| pair == b"\r\n").unwrap_or(at);
                text.splice(line..line, field.bytes());
            }
        }
    }
}
