//! Compresses files on their way into the cache, which stores the result: once for each version of
//! a file and each coding.
//!
//! The levels were measured on pages, style sheets, scripts and a search index of a book (60 KB to
//! 5 MB; one core of a shared machine). They are the last before time grows faster than size
//! shrinks.
//!
//! | coding | level | of the size left | MB/s | one level more |
//! |---|---|---|---|---|
//! | gzip | 5 | 17-34% | 39-89 | 16-34%, 30-45 MB/s |
//! | zstd | 9 | 13-33% | 55-71 | (12) 11-32%, 22-33 MB/s |
//! | br | 5 | 13-32% | 32-57 | 12-32%, 30-53 MB/s |
//!
//! Guarantees: at most half of the processors, but at least one, compress at a time. Memory is
//! bounded: for each, the largest file and its compressed form. A request that would wait longer
//! than [`PATIENCE`] gets the file uncompressed. The entity tag of a compressed file is known
//! without compressing it, and changes with anything that could change the bytes.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use crate::{Coding, Representation};
use brotli::enc::BrotliEncoderParams;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::origin::process_limit::ProcessLimit;

/// The longest wait for permission to compress.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

const GZIP_LEVEL: u32 = 5;
const ZSTD_LEVEL: i32 = 9;
const BROTLI_LEVEL: i32 = 5;

/// Brotli's window, 4 MiB. Decoders must accept up to 16 MiB (RFC 7932, 9.1).
const BROTLI_WINDOW: i32 = 22;

/// Limits concurrent compressions, across all roots.
static PLACES: ProcessLimit = ProcessLimit::new(places);

fn places() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).max(1)
}

/// Returns the strong entity tag of a representation.
pub(crate) fn etag(sent: &Representation) -> String {
    sent.version.etag(&how(sent))
}

/// Returns a text that changes whenever the representation or its file changes.
pub(crate) fn identity(sent: &Representation) -> String {
    sent.version.identity(&how(sent))
}

/// Describes how the representation is derived from the bytes of the file. It includes the release,
/// because another release may have other encoders that produce other bytes.
fn how(sent: &Representation) -> String {
    let how = match sent.compress {
        None => return sent.coding.map_or(String::new(), |coding| coding.name().to_owned()),
        Some(Coding::Gzip) => format!("gzip {GZIP_LEVEL}"),
        Some(Coding::Zstd) => format!("zstd {ZSTD_LEVEL}"),
        Some(Coding::Brotli) => format!("br {BROTLI_LEVEL} {BROTLI_WINDOW}"),
    };
    format!("{how} {}", env!("CARGO_PKG_VERSION"))
}

/// Waits for permission to compress. Returns `None` after [`PATIENCE`].
pub(crate) async fn place() -> Option<OwnedSemaphorePermit> {
    timeout(PATIENCE, PLACES.semaphore().acquire_owned()).await.ok()?.ok()
}

/// Takes all permits, waiting until no other holder has one.
#[cfg(test)]
pub(crate) async fn every_place() -> OwnedSemaphorePermit {
    let all = u32::try_from(places()).unwrap();
    PLACES.semaphore().acquire_many_owned(all).await.unwrap()
}

/// Compresses bytes. The output is deterministic.
pub(crate) fn compress(bytes: &[u8], coding: Coding) -> io::Result<Vec<u8>> {
    match coding {
        Coding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL));
            encoder.write_all(bytes)?;
            encoder.finish()
        }
        Coding::Zstd => zstd::bulk::compress(bytes, ZSTD_LEVEL),
        Coding::Brotli => {
            let params = BrotliEncoderParams {
                quality: BROTLI_LEVEL,
                lgwin: BROTLI_WINDOW,
                size_hint: bytes.len(),
                ..BrotliEncoderParams::default()
            };
            let (mut rest, mut made) = (bytes, Vec::new());
            brotli::BrotliCompress(&mut rest, &mut made, &params)?;
            Ok(made)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use crate::{Timestamp, Version};

    use super::*;

    #[test]
    fn compressed_bytes_are_smaller_decodable_and_deterministic() {
        let text = "It was the best of times, it was the worst of times. ".repeat(400);
        for coding in Coding::ALL {
            let made = compress(text.as_bytes(), coding).unwrap();
            assert!(made.len() < text.len() / 10, "{coding:?}: {}", made.len());
            assert_eq!(made, compress(text.as_bytes(), coding).unwrap(), "{coding:?}");
            let mut back = String::new();
            match coding {
                Coding::Gzip => {
                    flate2::read::GzDecoder::new(&made[..]).read_to_string(&mut back).unwrap()
                }
                Coding::Zstd => zstd::stream::read::Decoder::new(&made[..])
                    .unwrap()
                    .read_to_string(&mut back)
                    .unwrap(),
                Coding::Brotli => {
                    brotli::Decompressor::new(&made[..], 4096).read_to_string(&mut back).unwrap()
                }
            };
            assert_eq!(back, text, "{coding:?}");
            assert!(!compress(b"", coding).unwrap().is_empty(), "{coding:?}");
        }
    }

    #[test]
    fn each_coding_has_a_tag_of_its_own() {
        let time = Timestamp { seconds: 1, nanoseconds: 1 };
        let version = Version { device: 1, inode: 1, size: 1, modified: time, changed: time };
        let of =
            |coding, compress| etag(&Representation { version, coding, compress, varies: true });
        let mut tags: Vec<String> = Coding::ALL.map(|it| of(None, Some(it))).to_vec();
        tags.extend(Coding::ALL.map(|it| of(Some(it), None)));
        tags.push(of(None, None));
        assert_eq!(tags[6], version.etag(""));
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), 7);
    }
}
