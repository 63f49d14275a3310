//! The input of all trace readers: the bytes of a file, decompressed if necessary.
//!
//! The compression is detected from the first bytes, never from the name.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::rc::Rc;

const CAPACITY: usize = 1 << 16;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];

/// The compression of an input that ended in the middle of its data, once that was found.
pub(super) type Cut = Rc<Cell<Option<&'static str>>>;

/// Returns the decompressed bytes of `packed`: gzip, zstd or xz, also with several concatenated
/// members. Other input is returned as is. Compressed input that was cut short ends where it was
/// cut, which is noted in `cut`.
///
/// # Errors
/// The first bytes cannot be read.
pub(super) fn unpack(packed: impl Read + 'static, cut: &Cut) -> io::Result<Box<dyn BufRead>> {
    let mut packed = BufReader::with_capacity(CAPACITY, packed);
    let start = peek(&mut packed, XZ.len())?;
    let whole = io::Cursor::new(start.clone()).chain(packed);
    let (how, unpacked): (_, Box<dyn Read>) = if start.starts_with(GZIP) {
        ("gzip", Box::new(flate2::bufread::MultiGzDecoder::new(whole)))
    } else if start.starts_with(ZSTD) {
        ("zstd", Box::new(zstd::Decoder::with_buffer(whole)?))
    } else if start.starts_with(XZ) {
        ("xz", Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(whole)))
    } else {
        return Ok(Box::new(whole));
    };
    Ok(Box::new(BufReader::with_capacity(CAPACITY, Packed { how, unpacked, cut: cut.clone() })))
}

/// Decompressed input whose read errors name the compression.
struct Packed {
    how: &'static str,
    unpacked: Box<dyn Read>,
    cut: Cut,
}

impl Read for Packed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.cut.get().is_some() {
            return Ok(0);
        }
        match self.unpacked.read(bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.cut.set(Some(self.how));
                Ok(0)
            }
            Err(error) => {
                let what = format!("its {} data is damaged: {error}", self.how);
                Err(io::Error::new(error.kind(), what))
            }
            read => read,
        }
    }
}

/// Reads `len` bytes, fewer only at the end.
pub(super) fn peek(input: &mut impl Read, len: usize) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(len);
    input.take(len as u64).read_to_end(&mut start)?;
    Ok(start)
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use super::*;

    /// Returns `plain`, compressed in every format.
    pub fn packed(plain: &[u8]) -> [Vec<u8>; 3] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(plain).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(plain).unwrap();
        [gzip.finish().unwrap(), zstd::encode_all(plain, 1).unwrap(), xz.finish().unwrap()]
    }

    fn unpacked(packed: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        unpack(io::Cursor::new(packed), &Cut::default())?.read_to_end(&mut plain)?;
        Ok(plain)
    }

    #[test]
    fn compressed_input_is_decompressed() {
        let long = "a line\n".repeat(50_000).into_bytes();
        for plain in [&b""[..], b"\x1f", b"x", &long] {
            assert_eq!(unpacked(plain.to_vec()).unwrap(), plain);
            for packed in packed(plain) {
                let twice = [packed.clone(), packed.clone()].concat();
                assert_eq!(unpacked(twice).unwrap(), [plain, plain].concat());
                assert_eq!(unpacked(packed).unwrap(), plain);
            }
        }
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        for mut packed in packed(&"some text".repeat(9_000).into_bytes()) {
            let middle = packed.len() / 2;
            packed[middle..].iter_mut().for_each(|byte| *byte ^= 0x55);
            assert!(unpacked(packed).is_err());
        }
    }
}
