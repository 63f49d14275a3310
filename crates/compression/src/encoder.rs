//! Encoders for bodies that are compressed while they are sent.
//!
//! The levels are lower than for files, which are compressed once per version: a response may be
//! for one client alone. docs/decisions/0028-compression.md has their cost.
//!
//! Guarantee: the encoded bytes depend on the bytes of the body and on the places of
//! [`Encoder::flush`], not on how the body is cut into pieces, if each piece but the last has
//! [`SLICE`] bytes.

use std::io::{self, Write};
use std::mem;

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use flate2::Compression;
use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::coding::Coding;

/// Bytes of a body that are encoded at a time. Encoders work on up to 128 KiB at once, so that one
/// step takes at most some milliseconds.
pub const SLICE: usize = 16 * 1024;

const GZIP_LEVEL: u32 = 4;
const ZSTD_LEVEL: i32 = 3;
const BROTLI_LEVEL: i32 = 4;
/// Brotli's window, 256 KiB.
const BROTLI_WINDOW: i32 = 18;
/// Bytes of brotli's output buffer.
const BROTLI_BUFFER: usize = 4096;

/// An encoder of one body.
pub struct Encoder(Inner);

enum Inner {
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(Box<ZstdEncoder<'static, Vec<u8>>>),
    Gzip(Box<GzEncoder<Vec<u8>>>),
}

impl Encoder {
    /// Creates an encoder.
    ///
    /// # Errors
    /// Fails if the library lacks memory.
    pub fn new(coding: Coding) -> io::Result<Encoder> {
        Ok(Encoder(match coding {
            Coding::Brotli => {
                let params = BrotliEncoderParams {
                    quality: BROTLI_LEVEL,
                    lgwin: BROTLI_WINDOW,
                    ..BrotliEncoderParams::default()
                };
                let writer = CompressorWriter::with_params(Vec::new(), BROTLI_BUFFER, &params);
                Inner::Brotli(Box::new(writer))
            }
            Coding::Zstd => Inner::Zstd(Box::new(ZstdEncoder::new(Vec::new(), ZSTD_LEVEL)?)),
            Coding::Gzip => {
                Inner::Gzip(Box::new(GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL))))
            }
        }))
    }

    /// Encodes bytes.
    ///
    /// # Errors
    /// Fails if the library does.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer().write_all(bytes)
    }

    /// Makes everything written so far decodable from the output. Makes the output longer.
    ///
    /// # Errors
    /// Fails if the library does.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }

    /// Takes the output so far.
    pub fn take(&mut self) -> Vec<u8> {
        mem::take(match &mut self.0 {
            Inner::Brotli(encoder) => encoder.get_mut(),
            Inner::Zstd(encoder) => encoder.get_mut(),
            Inner::Gzip(encoder) => encoder.get_mut(),
        })
    }

    /// Ends the body and returns the rest of the output.
    ///
    /// # Errors
    /// Fails if the library does.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self.0 {
            Inner::Brotli(encoder) => Ok(encoder.into_inner()),
            Inner::Zstd(encoder) => encoder.finish(),
            Inner::Gzip(encoder) => encoder.finish(),
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.0 {
            Inner::Brotli(encoder) => encoder,
            Inner::Zstd(encoder) => encoder,
            Inner::Gzip(encoder) => encoder,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::Crc;

    use super::*;

    /// Text that compresses as web pages do.
    fn text() -> Vec<u8> {
        let mut state = 1_u32;
        let mut word = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 20
        };
        let lines = (0..12_000).map(|_| format!("<li class=\"w{}\">{}</li>\n", word(), word()));
        lines.collect::<String>().into_bytes()
    }

    fn encoded(coding: Coding, body: &[u8], flush_at: Option<usize>) -> Vec<u8> {
        let (mut encoder, mut made) = (Encoder::new(coding).unwrap(), Vec::new());
        for (number, slice) in body.chunks(SLICE).enumerate() {
            encoder.write(slice).unwrap();
            if flush_at == Some(number) {
                encoder.flush().unwrap();
            }
            made.extend(encoder.take());
        }
        made.extend(encoder.finish().unwrap());
        made
    }

    fn decoded(coding: Coding, made: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(made).read_to_end(&mut body),
            Coding::Zstd => zstd::stream::read::Decoder::new(made).unwrap().read_to_end(&mut body),
            Coding::Brotli => brotli::Decompressor::new(made, 4096).read_to_end(&mut body),
        }
        .unwrap();
        body
    }

    #[test]
    fn bodies_come_back() {
        let text = text();
        for coding in Coding::ALL {
            for length in [0, 1, SLICE, SLICE + 1, text.len()] {
                for flush_at in [None, Some(0)] {
                    let made = encoded(coding, &text[..length], flush_at);
                    assert_eq!(decoded(coding, &made), text[..length], "{coding:?} {length}");
                }
            }
            assert!(encoded(coding, &text, None).len() < text.len() / 3, "{coding:?}");
        }
    }

    #[test]
    fn flushed_bytes_can_be_decoded_at_once() {
        for coding in Coding::ALL {
            let mut encoder = Encoder::new(coding).unwrap();
            encoder.write(b"event").unwrap();
            encoder.flush().unwrap();
            let (made, mut body) = (encoder.take(), [0; 5]);
            match coding {
                Coding::Gzip => flate2::read::GzDecoder::new(&made[..]).read_exact(&mut body),
                Coding::Zstd => {
                    zstd::stream::read::Decoder::new(&made[..]).unwrap().read_exact(&mut body)
                }
                Coding::Brotli => brotli::Decompressor::new(&made[..], 4096).read_exact(&mut body),
            }
            .unwrap();
            assert_eq!(&body, b"event", "{coding:?}");
        }
    }

    /// The entity tags of stored forms name [`semantics::compressed::GENERATION`]. Raise it when a
    /// level or a library changes these sums: clients would combine parts of different bytes.
    #[test]
    fn encoders_make_the_bytes_of_their_generation() {
        let sums = Coding::ALL.map(|coding| {
            let mut sum = Crc::new();
            sum.update(&encoded(coding, &text(), None));
            sum.sum()
        });
        assert_eq!(
            (semantics::compressed::GENERATION, sums),
            (1, [1_279_502_451, 2_722_917_458, 1_614_399_346])
        );
    }
}
