//! libCacheSim's binary traces, "oracleGeneral".

use std::io::{self, BufRead, Read};

use super::error::Damage;
use super::event::{Access, Event};

const RECORD: usize = 24;

pub(super) struct Reader {
    input: Box<dyn BufRead>,
    record: u64,
}

impl Reader {
    pub(super) fn new(input: Box<dyn BufRead>) -> Reader {
        Reader { input, record: 0 }
    }

    /// Reads the next record without its time.
    pub(super) fn next(&mut self) -> io::Result<Option<Result<Access, Damage>>> {
        Ok(self.next_timed()?.map(|found| found.map(|(_, access)| access)))
    }

    pub(super) fn next_event(&mut self) -> io::Result<Option<Result<Event, Damage>>> {
        let found = self.next_timed()?;
        Ok(found.map(|found| {
            found.map(|(seconds, access)| Event {
                time_ms: seconds * 1_000,
                object: access.object,
                size: Some(access.size),
                status: 200,
                ..Event::default()
            })
        }))
    }

    fn next_timed(&mut self) -> io::Result<Option<Result<(u64, Access), Damage>>> {
        let mut record = Vec::with_capacity(RECORD);
        (&mut self.input).take(RECORD as u64).read_to_end(&mut record)?;
        self.record += 1;
        if record.is_empty() {
            return Ok(None);
        }
        let field = |from: usize, len: usize| {
            let mut bytes = [0; 8];
            bytes[..len].copy_from_slice(record.get(from..from + len)?);
            Some(u64::from_le_bytes(bytes))
        };
        let access = match (record.len(), field(0, 4), field(4, 8), field(12, 4)) {
            (RECORD, Some(time), Some(object), Some(size)) => Ok((time, Access { object, size })),
            (len, ..) => {
                let what =
                    format!("{len} bytes at the end of the trace, but a record has {RECORD}");
                Err(Damage { number: self.record, what })
            }
        };
        Ok(Some(access))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(object: u64, size: u32) -> Vec<u8> {
        let fields: [&[u8]; 4] =
            [&7_u32.to_le_bytes(), &object.to_le_bytes(), &size.to_le_bytes(), &[0xff; 8]];
        fields.concat()
    }

    #[test]
    fn records_are_read_and_a_cut_one_is_named() {
        let mut bytes = [record(5, 70), record(u64::MAX, u32::MAX)].concat();
        bytes.extend([0; 10]);
        let mut reader = Reader::new(Box::new(io::Cursor::new(bytes)));
        assert_eq!(reader.next().unwrap(), Some(Ok(Access { object: 5, size: 70 })));
        let largest = Access { object: u64::MAX, size: u64::from(u32::MAX) };
        assert_eq!(reader.next().unwrap(), Some(Ok(largest)));
        let damage = reader.next().unwrap().unwrap().unwrap_err();
        assert_eq!((damage.number, &damage.what[..8]), (3, "10 bytes"));
        assert_eq!(reader.next().unwrap(), None);
    }
}
