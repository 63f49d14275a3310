//! Writes requests as traces: tables, or libCacheSim's oracleGeneral, compressed as the name
//! states.
//!
//! A table keeps everything. oracleGeneral has one size for each object, that of its last request,
//! and for each request the position of the next one for the same object. That is known only at the
//! end, so requests wait in a temporary file beside the result, 16 bytes for each. Memory grows
//! with the objects alone.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::cleanup::TemporaryPath;
use crate::request::{Kind, Method, Request};

const HEADER: &str = "time_ms,client,site,group,object,version,size,method,status,kind,cacheable";

/// Number of requests of the temporary file that are held in memory at a time.
const CHUNK: u64 = 1 << 16;

/// Bytes per waiting request: time and object; in the second file, the next request.
const WAITING: u64 = 8;

/// Value for the last request of an object.
const NEVER: i64 = -1;

/// A trace that is being written.
pub struct Writer {
    output: Output,
    kind: WriterKind,
    requests: u64,
    path: PathBuf,
}

enum WriterKind {
    Table,
    Oracle(Waiting),
}

/// Requests that wait for the end of the trace.
struct Waiting {
    requests: BufWriter<File>,
    /// The directory of temporary files.
    beside: PathBuf,
    sizes: Vec<u32>,
    /// Number of requests whose values exceed the format's 32 bits.
    cut: u64,
}

/// Result of writing a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests beyond oracleGeneral's largest size, 4 GiB - 1, or its last second, in
    /// 2106; they are written with that maximum.
    pub cut: u64,
}

impl Writer {
    /// Starts the file `path`, which [`Writer::finish`] completes. Its name selects the format:
    /// `.oracleGeneral` or `.csv`, followed by `.gz`, `.zst`, `.xz` or nothing.
    ///
    /// # Errors
    /// The name selects no format, or no file can be created in its directory.
    pub fn create(path: &Path) -> io::Result<Writer> {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let packed = [".gz", ".zst", ".xz"].into_iter().find(|end| name.ends_with(end));
        let plain = name.strip_suffix(packed.unwrap_or_default()).unwrap_or(&name);
        let is_oracle = plain.ends_with(".oracleGeneral");
        if !is_oracle && !plain.ends_with(".csv") {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "its name ends in neither .oracleGeneral nor .csv, with or without .gz, .zst, .xz",
            ));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let beside = parent.unwrap_or(Path::new("."));
        let mut output = Output::new(Target::at(path, beside)?, packed)?;
        let kind = if is_oracle {
            let requests = BufWriter::with_capacity(1 << 16, tempfile::tempfile_in(beside)?);
            let beside = beside.to_owned();
            WriterKind::Oracle(Waiting { requests, beside, sizes: Vec::new(), cut: 0 })
        } else {
            writeln!(output, "{HEADER}")?;
            WriterKind::Table
        };
        Ok(Writer { output, kind, requests: 0, path: path.to_owned() })
    }

    /// Writes the next request.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn take(&mut self, request: &Request) -> io::Result<()> {
        self.requests += 1;
        match &mut self.kind {
            WriterKind::Table => line(&mut self.output, request),
            WriterKind::Oracle(waiting) => waiting.take(request),
        }
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// The file cannot be written or renamed.
    pub fn finish(mut self) -> io::Result<Written> {
        let cut = match self.kind {
            WriterKind::Table => 0,
            WriterKind::Oracle(waiting) => waiting.write(self.requests, &mut self.output)?,
        };
        self.output.finish()?.complete(&self.path)?;
        Ok(Written { requests: self.requests, cut })
    }
}

fn line(output: &mut Output, request: &Request) -> io::Result<()> {
    let Request { time_ms, size, client, site, group, object, version, status, .. } = *request;
    let method = match request.method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Other => "OTHER",
    };
    let kind = if request.kind == Kind::Html { "html" } else { "other" };
    let cacheable = if request.uncacheable { "no" } else { "yes" };
    writeln!(
        output,
        "{time_ms},{client},{site},{group},{object},{version},{size},{method},{status},{kind},\
         {cacheable}"
    )
}

impl Waiting {
    fn take(&mut self, request: &Request) -> io::Result<()> {
        let object = request.object as usize;
        if object >= self.sizes.len() {
            self.sizes.resize(object + 1, 0);
        }
        let (time, size) = (request.time_ms / 1_000, request.size.max(1));
        let is_cut = time > u64::from(u32::MAX) || size > u64::from(u32::MAX);
        self.cut += u64::from(is_cut);
        self.sizes[object] = u32::try_from(size).unwrap_or(u32::MAX);
        let time = u32::try_from(time).unwrap_or(u32::MAX);
        self.requests.write_all(&time.to_le_bytes())?;
        self.requests.write_all(&request.object.to_le_bytes())
    }

    fn write(self, len: u64, output: &mut Output) -> io::Result<u64> {
        let mut requests = self.requests.into_inner().map_err(|error| error.into_error())?;
        let mut nexts = tempfile::tempfile_in(&self.beside)?;
        let mut next_of = vec![NEVER; self.sizes.len()];
        let mut end = len;
        while end > 0 {
            let start = end.saturating_sub(CHUNK);
            let mut chunk = vec![0; ((end - start) * WAITING) as usize];
            requests.seek(SeekFrom::Start(start * WAITING))?;
            requests.read_exact(&mut chunk)?;
            for (place, waiting) in chunk.chunks_exact_mut(WAITING as usize).enumerate().rev() {
                let (_, object) = split(waiting);
                let now = (start + place as u64) as i64;
                let next = std::mem::replace(&mut next_of[object as usize], now);
                waiting.copy_from_slice(&next.to_le_bytes());
            }
            nexts.seek(SeekFrom::Start(start * WAITING))?;
            nexts.write_all(&chunk)?;
            end = start;
        }
        requests.rewind()?;
        nexts.rewind()?;
        let (mut requests, mut nexts) = (BufReader::new(requests), BufReader::new(nexts));
        let (mut waiting, mut next) = ([0; WAITING as usize], [0; WAITING as usize]);
        while !requests.fill_buf()?.is_empty() {
            requests.read_exact(&mut waiting)?;
            nexts.read_exact(&mut next)?;
            let (time, object) = split(&waiting);
            output.write_all(&time.to_le_bytes())?;
            // From 1: some readers treat 0 as no object.
            output.write_all(&(u64::from(object) + 1).to_le_bytes())?;
            output.write_all(&self.sizes[object as usize].to_le_bytes())?;
            output.write_all(&next)?;
        }
        Ok(self.cut)
    }
}

/// Returns time and object.
fn split(waiting: &[u8]) -> (u32, u32) {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    (number(&waiting[..4]), number(&waiting[4..8]))
}

enum Target {
    /// A new file, which does not have its final name yet.
    New(NamedTempFile, TemporaryPath),
    /// An existing file that cannot be replaced, for example a pipe.
    There(File),
}

impl Target {
    fn at(path: &Path, beside: &Path) -> io::Result<Target> {
        use std::os::unix::fs::PermissionsExt;

        /// The umask applies to it, as for any new file.
        const MODE: u32 = 0o666;
        match path.metadata() {
            Ok(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(there) if !there.is_file() => Ok(Target::There(File::create(path)?)),
            _ => {
                let mode = std::fs::Permissions::from_mode(MODE);
                let new = tempfile::Builder::new().permissions(mode).tempfile_in(beside)?;
                let leftover = TemporaryPath::new(new.path());
                Ok(Target::New(new, leftover))
            }
        }
    }

    fn complete(self, path: &Path) -> io::Result<()> {
        match self {
            // The target of a symbolic link is replaced, not the link.
            Target::New(file, _leftover) => {
                let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
                file.persist(path).map_err(|error| error.error).map(drop)
            }
            Target::There(_) => Ok(()),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::New(file, _) => file.write(bytes),
            Target::There(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::New(file, _) => file.flush(),
            Target::There(file) => file.flush(),
        }
    }
}

/// A file that is compressed while it is written.
enum Output {
    Plain(BufWriter<Target>),
    Gzip(flate2::write::GzEncoder<BufWriter<Target>>),
    Zstd(zstd::Encoder<'static, BufWriter<Target>>),
    Xz(liblzma::write::XzEncoder<BufWriter<Target>>),
}

impl Output {
    fn new(file: Target, packed: Option<&str>) -> io::Result<Output> {
        const XZ_LEVEL: u32 = 3;
        let file = BufWriter::with_capacity(1 << 16, file);
        Ok(match packed {
            Some(".gz") => {
                Output::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::default()))
            }
            Some(".zst") => Output::Zstd(zstd::Encoder::new(file, 0)?),
            Some(".xz") => Output::Xz(liblzma::write::XzEncoder::new(file, XZ_LEVEL)),
            _ => Output::Plain(file),
        })
    }

    fn finish(self) -> io::Result<Target> {
        let file = match self {
            Output::Plain(file) => file,
            Output::Gzip(encoder) => encoder.finish()?,
            Output::Zstd(encoder) => encoder.finish()?,
            Output::Xz(encoder) => encoder.finish()?,
        };
        file.into_inner().map_err(|error| error.into_error())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Plain(file) => file.write(bytes),
            Output::Gzip(encoder) => encoder.write(bytes),
            Output::Zstd(encoder) => encoder.write(bytes),
            Output::Xz(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Plain(file) => file.flush(),
            Output::Gzip(encoder) => encoder.flush(),
            Output::Zstd(encoder) => encoder.flush(),
            Output::Xz(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Workload;
    use crate::trace::{Filter, ReadOptions, Requests};

    fn requests() -> Vec<Request> {
        let workload = Workload::named("polymix-4").unwrap().scaled(50);
        // More than a chunk.
        workload.iter(1).take(CHUNK as usize + 5_000).collect()
    }

    fn write(path: &Path, requests: &[Request]) {
        let mut writer = Writer::create(path).unwrap();
        requests.iter().for_each(|request| writer.take(request).unwrap());
        let written = writer.finish().unwrap();
        assert_eq!(written, Written { requests: requests.len() as u64, cut: 0 });
    }

    #[test]
    fn a_table_gives_the_requests_back() {
        let directory = tempfile::tempdir().unwrap();
        let requests = requests();
        for name in ["a.csv", "a.csv.gz", "a.csv.zst", "a.csv.xz"] {
            let path = directory.path().join(name);
            write(&path, &requests);
            let options = ReadOptions { filter: Filter::All, ..ReadOptions::default() };
            let found: Vec<Request> = Requests::new(vec![path], options).collect();
            assert_eq!(found.len(), requests.len(), "{name}");
            for (found, request) in found.iter().zip(&requests) {
                // Numbers are assigned anew in the order of the requests, and so are versions.
                let Request { object, group, client, version, .. } = *found;
                assert_eq!(*found, Request { object, group, client, version, ..*request });
            }
        }
    }

    #[test]
    fn oracle_records_know_the_next_request_and_one_size() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.oracleGeneral");
        let requests = requests();
        write(&path, &requests);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), requests.len() * 24);
        let number = |from: usize, len: usize| {
            let mut number = [0; 8];
            number[..len].copy_from_slice(&bytes[from..from + len]);
            u64::from_le_bytes(number)
        };
        let mut sizes = std::collections::HashMap::new();
        let mut nexts = std::collections::HashMap::new();
        for (at, request) in requests.iter().enumerate().rev() {
            let record = at * 24;
            assert_eq!(number(record, 4), request.time_ms / 1_000);
            assert_eq!(number(record + 4, 8), u64::from(request.object) + 1);
            let size = *sizes.entry(request.object).or_insert(request.size);
            assert_eq!(number(record + 12, 4), size);
            let next = nexts.insert(request.object, at as i64).unwrap_or(NEVER);
            assert_eq!(number(record + 16, 8) as i64, next, "request {at}");
        }
    }

    #[test]
    fn a_file_is_replaced_by_a_complete_one_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.csv");
        std::fs::write(&path, "what was there").unwrap();
        let mut writer = Writer::create(&path).unwrap();
        requests().iter().for_each(|request| writer.take(request).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"what was there");
        drop(writer);
        assert_eq!(std::fs::read(&path).unwrap(), b"what was there");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        write(&path, &[]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{HEADER}\n"));
        assert!(Writer::create(directory.path().join("no/a.csv").as_path()).is_err());
    }

    #[test]
    fn names_say_how() {
        let error = Writer::create(Path::new("trace.txt")).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(".oracleGeneral"), "{error}");
    }
}
