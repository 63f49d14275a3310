//! A document root that serves requests as an origin server does.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use files::{Accepted, Coding, File, ListingQuery, OpenError, Outcome, ReadError};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};
use semantics::EditFields;
use semantics::multipart::Multipart;
use tokio::sync::OwnedSemaphorePermit;
use upstream::connection::origin_body::OriginBody;
use upstream::failure::error::{Failure, Reason};
use upstream::send::origin::{
    Connector, Earlier, Figure, Group, Looking, Origin, Sending, Voucher,
};
use upstream::send::outgoing::Outgoing;
use upstream::settings::endpoint::Endpoint;

use crate::body::{FileBody, WHOLE_MAX};
use crate::compress;
use crate::current::Current;
use crate::finding::{Fetched, Reading, is_forgotten};
use crate::grouping::{Answered, Grouping};
use crate::options::FileOptions;
use crate::response;
use crate::response::Sent;
use crate::transfers::{self, Place};
use crate::upkeep::Upkeep;
use crate::voucher::Known;

/// Number of further attempts to read a file that keeps changing.
const ATTEMPTS: usize = 5;

/// The pause before another attempt; the clock of file timestamps advances during it.
const PAUSE: Duration = Duration::from_millis(20);

/// The files below one directory.
pub struct FileOrigin {
    path: PathBuf,
    page_cache_max: u64,
    grouping: Grouping,
    current: Arc<Current>,
}

/// A request for a file.
struct Asked<'a> {
    method: &'a Method,
    fields: &'a HeaderMap,
    now: SystemTime,
    /// The largest body in bytes that the cache stores.
    store_max: u64,
    /// No attempt follows this one.
    is_last: bool,
}

/// A response of the origin.
struct Answer {
    status: StatusCode,
    fields: HeaderMap,
    body: FileBody,
    /// The group of its file, if there is one.
    group: Option<Group>,
}

impl FileOrigin {
    /// Opens a directory.
    ///
    /// # Errors
    /// Fails if the path is not a directory or cannot be entered, or if an option is invalid.
    pub fn open(path: &Path, options: FileOptions) -> Result<Arc<FileOrigin>, OpenError> {
        let known = Known::open(path, &options)?;
        let (page_cache_max, current) = (options.page_cache_max, Arc::new(Current::new(known)));
        let grouping = Grouping::new(options.files.index.clone());
        let started = Upkeep::new(&current, path, options).start();
        started.map_err(|error| OpenError::Io(path.to_owned(), error))?;
        Ok(Arc::new(FileOrigin { path: path.to_owned(), page_cache_max, grouping, current }))
    }

    /// Returns the path of the directory as configured.
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn answer(
        &self,
        method: &Method,
        path: &str,
        query: Option<&str>,
        (fields, store_max): (&HeaderMap, u64),
    ) -> io::Result<Answer> {
        if let Some((status, fields)) = response::of_method(method) {
            return Ok(Answer::text(status, fields, method));
        }
        let accepted = Accepted::of(fields);
        let most = if response::is_of_all(method, fields) { WHOLE_MAX } else { 0 };
        let forgotten = self.page_cache_max..=store_max;
        let (mut pauses, mut place) = (0, None);
        loop {
            // The last attempt does not read the file whole, because only a reader tolerates
            // growth.
            let most = if pauses == ATTEMPTS { 0 } else { most };
            let reading = Reading { most, forgotten: forgotten.clone() };
            let (known, now) = (self.current.known(), SystemTime::now());
            let Fetched { file, bytes } = known.fetch(path, accepted, reading).await?;
            let stamp = file.stamp;
            let file = match file.found.outcome {
                Outcome::File(file) => file,
                other => return self.without_file(other, (method, path, query), fields).await,
            };
            // A weak tag means that the file changed a moment ago.
            let fresh = !file.version.is_settled(now);
            if fresh && pauses == 0 {
                pauses += 1;
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            let grouped = self.grouping.of(&file, path);
            // A file that keeps growing is sent up to the length that it had at first.
            let asked = Asked { method, fields, now, store_max, is_last: pauses == ATTEMPTS };
            match self.file(&known, (file, bytes), &asked, &mut place).await {
                Err(ReadError::Changed) if pauses < ATTEMPTS => {
                    pauses += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(ReadError::Changed) => {
                    return Ok(Answer::later(method));
                }
                Err(ReadError::Io(error)) => return Err(error),
                Ok(Some(answer)) => {
                    let Answer { status, fields: ref sent, ref body, .. } = answer;
                    stamp.into_iter().for_each(|stamp| known.note(path, accepted, sent, stamp));
                    let answered = Answered { path, request: fields, status, fields: sent, body };
                    self.grouping.read(&grouped, &answered, &known);
                    return Ok(Answer { group: Some(grouped.group), ..answer });
                }
                Ok(None) => {
                    place = transfers::place().await;
                    if place.is_none() {
                        let root = self.path.display();
                        log::warn!("{root}: {path}: too many files are being sent");
                        return Ok(Answer::later(method));
                    }
                }
            }
        }
    }

    /// Responds with a file, compressed if so chosen. A body sent in pieces takes its place from
    /// `place`, or a free one. Returns `None` if no place is free.
    async fn file(
        &self,
        known: &Known,
        (mut file, bytes): (File, Option<Result<Vec<u8>, ReadError>>),
        asked: &Asked<'_>,
        place: &mut Option<Place>,
    ) -> Result<Option<Answer>, ReadError> {
        let Some(coding) = file.compress else {
            return self.plain(known, (file, bytes), asked, place).await;
        };
        let fields = response::fields(&file, asked.now);
        let request = response::settled(asked.fields, &fields);
        let fields = match response::decide(asked.method, &request, fields, None, asked.now) {
            Sent::Head(status, fields) => {
                return Ok(Some(Answer::new(status, fields, FileBody::of(Bytes::new()))));
            }
            Sent::Bytes(_, fields, _) | Sent::Parts(fields, _) => fields,
        };
        let Some(turn) = compress::place().await else {
            file.compress = None;
            return self.plain(known, (file, None), asked, place).await;
        };
        let reader = self.reader(file, asked);
        compressed(known, reader, fields, coding, turn).await.map(Some)
    }

    /// Returns a reader for a file.
    fn reader(&self, file: File, asked: &Asked<'_>) -> files::Reader {
        let forget = is_forgotten(file.version.size, &(self.page_cache_max..=asked.store_max));
        let reader = file.into_reader(forget);
        if asked.is_last { reader.tolerant() } else { reader }
    }

    /// Responds with a file uncompressed, or with ranges of it.
    async fn plain(
        &self,
        known: &Known,
        (file, bytes): (File, Option<Result<Vec<u8>, ReadError>>),
        asked: &Asked<'_>,
        place: &mut Option<Place>,
    ) -> Result<Option<Answer>, ReadError> {
        let Asked { method, fields: request, now, .. } = *asked;
        let (fields, length) = (response::fields(&file, now), file.version.size);
        let request = response::settled(request, &fields);
        let reader = self.reader(file, asked);
        let decided = response::decide(method, &request, fields, Some(length), now);
        let (status, fields, range) = match decided {
            Sent::Head(status, fields) => {
                return Ok(Some(Answer::new(status, fields, FileBody::of(Bytes::new()))));
            }
            Sent::Parts(mut fields, parts) => {
                let Some(place) = place.take().or_else(transfers::free_place) else {
                    return Ok(None);
                };
                let kind = fields.get(header::CONTENT_TYPE);
                let frame = Multipart::new(&parts, length, kind, boundary());
                fields.insert(header::CONTENT_TYPE, frame.content_type());
                fields.insert(header::CONTENT_LENGTH, frame.total_length().into());
                let (reader, pool) = (reader.tolerant(), known.pool.clone());
                let body = FileBody::read_parts(reader, &frame, pool, place);
                return Ok(Some(Answer::new(StatusCode::PARTIAL_CONTENT, fields, body)));
            }
            Sent::Bytes(status, fields, range) => (status, fields, range),
        };
        let body = match (bytes, range.count()) {
            (Some(bytes), _) => FileBody::of(bytes?.into()),
            (None, 0) => FileBody::of(Bytes::new()),
            (None, count) if count > WHOLE_MAX => {
                let Some(place) = place.take().or_else(transfers::free_place) else {
                    return Ok(None);
                };
                let reader = reader.tolerant().within(range);
                FileBody::read(reader, known.pool.clone(), place)
            }
            (None, _) => {
                let bytes = known.pool.run(move || reader.within(range).read_rest()).await;
                FileBody::of(bytes.map_err(ReadError::Io)??.into())
            }
        };
        Ok(Some(Answer::new(status, fields, body)))
    }

    async fn without_file(
        &self,
        outcome: Outcome,
        (method, path, query): (&Method, &str, Option<&str>),
        request: &HeaderMap,
    ) -> io::Result<Answer> {
        let status = match outcome {
            Outcome::Redirect(location) => {
                let location = match query {
                    Some(query) => format!("{location}?{query}"),
                    None => location,
                };
                let location = HeaderValue::try_from(location).map_err(io::Error::other)?;
                let fields = HeaderMap::from_iter([(header::LOCATION, location)]);
                return Ok(Answer::text(StatusCode::MOVED_PERMANENTLY, fields, method));
            }
            Outcome::Listing(listing) => {
                let known = self.current.known();
                let root = known.root.clone();
                let wanted = ListingQuery::of(query, response::accepts_json(request));
                let make = move || root.list(&listing, &wanted);
                match known.listings.get(&known.pool, (path, wanted), make).await {
                    Ok(Some(page)) => return Ok(Answer::listing(&page, method, request)),
                    Ok(None) => return Ok(Answer::later(method)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => StatusCode::NOT_FOUND,
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        StatusCode::FORBIDDEN
                    }
                    Err(error) => return Err(error),
                }
            }
            Outcome::Forbidden | Outcome::NotRegular => StatusCode::FORBIDDEN,
            Outcome::Malformed => StatusCode::BAD_REQUEST,
            Outcome::Status(status) => {
                StatusCode::from_u16(status).unwrap_or(StatusCode::NOT_FOUND)
            }
            Outcome::Missing | Outcome::File(_) => StatusCode::NOT_FOUND,
        };
        Ok(Answer::text(status, HeaderMap::new(), method))
    }

    /// Replaces the body by the error page configured for the status, if there is one. The fields
    /// that explain the status stay.
    async fn with_error_page(&self, answer: Answer, method: &Method, accepted: Accepted) -> Answer {
        let (known, code) = (self.current.known(), answer.status.as_u16());
        if !known.root.has_error_page(code) {
            return answer;
        }
        let (root, now) = (known.root.clone(), SystemTime::now());
        let page = known.pool.run(move || {
            let found = root.error_page(code, accepted).ok()??;
            let Outcome::File(mut file) = found.outcome else { return None };
            file.compress = None;
            let (fields, length) = (response::fields(&file, now), file.version.size);
            let is_small = (1..=WHOLE_MAX).contains(&length);
            let bytes = is_small.then(|| file.reader(false).read_rest())?.ok()?;
            Some((fields, Bytes::from(bytes)))
        });
        let Some((page, bytes)) = page.await.ok().flatten() else { return answer };
        let Answer { status, mut fields, .. } = answer;
        for name in [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::VARY] {
            fields.remove(&name);
            fields.extend(page.get(&name).map(|value| (name, value.clone())));
        }
        fields.insert(header::CONTENT_LENGTH, bytes.len().into());
        let bytes = if *method == Method::HEAD { Bytes::new() } else { bytes };
        Answer::new(status, fields, FileBody::of(bytes))
    }
}

/// Responds with a whole compressed file. The cache stores it and cuts ranges from it.
async fn compressed(
    known: &Known,
    mut reader: files::Reader,
    mut fields: HeaderMap,
    coding: Coding,
    place: OwnedSemaphorePermit,
) -> Result<Answer, ReadError> {
    let made = known.pool.run(move || {
        let _place = place;
        let bytes = reader.read_rest()?;
        compress::compress(&bytes, coding).map_err(ReadError::Io)
    });
    let made = made.await.map_err(ReadError::Io)??;
    fields.insert(header::CONTENT_LENGTH, made.len().into());
    Ok(Answer::new(StatusCode::OK, fields, FileBody::of(made.into())))
}

/// Returns an unpredictable boundary for the parts of a multipart response.
fn boundary() -> u128 {
    let word = || RandomState::new().hash_one(0);
    u128::from(word()) << 64 | u128::from(word())
}

impl Answer {
    /// Creates a response without a group.
    fn new(status: StatusCode, fields: HeaderMap, body: FileBody) -> Answer {
        Answer { status, fields, body, group: None }
    }

    /// Creates a response whose body is its status in words.
    fn text(status: StatusCode, mut fields: HeaderMap, method: &Method) -> Answer {
        if status == StatusCode::NO_CONTENT {
            return Answer::new(status, fields, FileBody::of(Bytes::new()));
        }
        let text = Bytes::from(response::text(status));
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        fields.insert(header::CONTENT_TYPE, plain);
        fields.insert(header::CONTENT_LENGTH, text.len().into());
        let text = if *method == Method::HEAD { Bytes::new() } else { text };
        Answer::new(status, fields, FileBody::of(text))
    }

    /// Creates a 503 response that asks the client to retry.
    fn later(method: &Method) -> Answer {
        let fields = HeaderMap::from_iter([(header::RETRY_AFTER, 1.into())]);
        Answer::text(StatusCode::SERVICE_UNAVAILABLE, fields, method)
    }

    /// Creates a response with a listing. Its tag is weak: listings are not stored, because they
    /// depend on more than one file.
    fn listing(page: &files::ListingPage, method: &Method, request: &HeaderMap) -> Answer {
        let mut fields = HeaderMap::new();
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(page.media_type));
        fields.insert(header::VARY, HeaderValue::from_static("accept"));
        let next =
            page.next.as_ref().map(|next| HeaderValue::try_from(format!("<{next}>; rel=\"next\"")));
        fields.extend(next.and_then(Result::ok).map(|next| (header::LINK, next)));
        if let Ok(tag) = HeaderValue::try_from(format!("W/{}", page.etag)) {
            fields.insert(header::ETAG, tag);
        }
        let length = page.text.len() as u64;
        let mut request = request.clone();
        request.remove(header::RANGE);
        match response::decide(method, &request, fields, Some(length), SystemTime::now()) {
            Sent::Head(status, fields) => Answer::new(status, fields, FileBody::of(Bytes::new())),
            Sent::Bytes(status, fields, _) => {
                Answer::new(status, fields, FileBody::of(Bytes::from(page.text.clone())))
            }
            Sent::Parts(..) => unreachable!("no range was asked for"),
        }
    }
}

impl Origin for FileOrigin {
    fn send<'a>(self: Arc<Self>, with: Connector<'a>, outgoing: Outgoing<'a>) -> Sending<'a> {
        Box::pin(async move {
            let silence = with.limits.body_timeout;
            let Some(request) = outgoing.request.or_else(|| outgoing.again.map(|again| again()))
            else {
                let cause = "the request was sent before".to_owned();
                return Err(Failure::Failed(Reason::Upstream, cause));
            };
            let (method, uri, fields) = (request.method(), request.uri(), request.headers());
            let asked = (fields, outgoing.store_max);
            let answer = self.answer(method, uri.path(), uri.query(), asked).await;
            let answer = answer.unwrap_or_else(|error| {
                log::warn!("{}: {}: {error}", self.path.display(), uri.path());
                Answer::text(StatusCode::INTERNAL_SERVER_ERROR, HeaderMap::new(), method)
            });
            let answer = self.with_error_page(answer, method, Accepted::of(fields)).await;
            let Answer { status, fields, body, group } = answer;
            let mut response = Response::new(OriginBody::file(body, silence));
            *response.status_mut() = status;
            *response.headers_mut() = fields;
            if let Some(group) = group {
                response.extensions_mut().insert(group);
            }
            Ok(response)
        })
    }

    fn endpoint(&self, _: usize) -> Option<&Endpoint> {
        None
    }

    fn voucher(&self) -> Option<&dyn Voucher> {
        Some(self)
    }

    fn figures(&self) -> Vec<Figure> {
        self.current.known().figures()
    }
}

impl Voucher for FileOrigin {
    fn is_current(&self, earlier: &Earlier<'_>) -> bool {
        self.current.known().is_current(earlier)
    }

    fn tidy(&self, request: &mut http1::Fields) {
        match Accepted::of(request).to_field().and_then(|text| text.try_into().ok()) {
            Some(value) => request.set_line(&header::ACCEPT_ENCODING, &value),
            None => _ = request.remove_lines(&header::ACCEPT_ENCODING),
        }
    }

    fn canonical_path<'p>(&self, path: &'p str) -> Option<Cow<'p, str>> {
        self.current.known().root.canonical_path(path)
    }

    fn look<'a>(&'a self, earlier: Earlier<'a>) -> Looking<'a> {
        let known = self.current.known();
        Box::pin(async move { known.look(earlier).await })
    }
}

impl fmt::Debug for FileOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileOrigin").field("path", &self.path).finish_non_exhaustive()
    }
}

impl fmt::Display for FileOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the files in {}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::future::poll_fn;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;
    use std::pin::Pin;

    use files::Compress;
    use http_body::Body;
    use upstream::connection::send_file::{SendFile, Sent};
    use upstream::send::origin::VERSION;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn large_files_wait_for_a_place_and_others_do_not() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("large"), vec![b'x'; 600_000]).unwrap();
        fs::write(root.path().join("small"), "small").unwrap();
        let origin = FileOrigin::open(root.path(), FileOptions::default()).unwrap();
        let none = HeaderMap::new();
        let part = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static("bytes=0-99"))]);
        let get = |path: &'static str, fields| origin.answer(&Method::GET, path, None, (fields, 0));
        let every_place = transfers::every_place().await;
        assert_eq!(get("/small", &none).await.unwrap().status, StatusCode::OK);
        assert_eq!(get("/large", &part).await.unwrap().status, StatusCode::PARTIAL_CONTENT);
        let refused = get("/large", &none).await.unwrap();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.fields[header::RETRY_AFTER], "1");
        // A waiting request gets a place when another one is done.
        let free = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(every_place);
        };
        let (waited, ()) = tokio::join!(get("/large", &none), free);
        assert_eq!(waited.unwrap().status, StatusCode::OK);
    }

    /// Returns the bytes of a body, and the number of frames with bytes that the kernel did not
    /// send.
    async fn sent_by_kernel(mut body: FileBody) -> io::Result<(Vec<u8>, usize)> {
        // The kernel sends to files as it does to sockets.
        let (mut socket, mut frames) = (tempfile::tempfile()?, 0);
        assert!(body.prefers_kernel());
        while !body.is_end_stream() {
            match poll_fn(|cx| body.poll_send(cx, socket.as_fd())).await {
                Sent::Bytes(_) => {}
                Sent::Full => panic!("a file is never full"),
                Sent::Frames => {
                    let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.unwrap()?;
                    socket.write_all(frame.data_ref().unwrap())?;
                    frames += 1;
                }
            }
        }
        let mut bytes = Vec::new();
        socket.seek(io::SeekFrom::Start(0))?;
        socket.read_to_end(&mut bytes)?;
        Ok((bytes, frames))
    }

    #[tokio::test(start_paused = true)]
    async fn the_kernel_sends_all_but_the_ends_of_a_large_file() {
        let root = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..5_000_000_u32).flat_map(|word| word.to_le_bytes()).collect();
        let path = root.path().join("large");
        fs::write(&path, &bytes).unwrap();
        let file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let origin = FileOrigin::open(root.path(), FileOptions::default()).unwrap();
        let get = async |ranges: &'static str| {
            let fields = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static(ranges))]);
            let answer = origin.answer(&Method::GET, "/large", None, (&fields, 0)).await;
            answer.unwrap().body
        };
        assert!(sent_by_kernel(get("").await).await.unwrap() == (bytes.clone(), 2));
        let (range, frames) = sent_by_kernel(get("bytes=9-10000008").await).await.unwrap();
        assert!((&range[..], frames) == (&bytes[9..10_000_009], 2));
        let (parts, frames) =
            sent_by_kernel(get("bytes=0-1999999,5000000-5999999").await).await.unwrap();
        let has = |part: &[u8]| parts.windows(part.len()).any(|piece| piece == part);
        assert!(has(&bytes[..2_000_000]) && has(&bytes[5_000_000..6_000_000]));
        // The bytes before each part, its first and last piece, and the bytes after the last part.
        assert_eq!(frames, 2 * 3 + 1);
        let body = get("").await;
        fs::write(&path, "shorter").unwrap();
        assert!(sent_by_kernel(body).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn who_would_wait_too_long_for_compression_gets_the_file_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.html"), "again ".repeat(1000)).unwrap();
        let codings = vec![Coding::Gzip];
        let types = vec!["text/html".to_owned()];
        let mut options = FileOptions::default();
        options.files.compress = Compress { codings, types, least: 0, most: 10_000 };
        let origin = FileOrigin::open(root.path(), options).unwrap();
        let gzip = (header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let fields = HeaderMap::from_iter([gzip]);
        let every_place = compress::every_place().await;
        let plain = origin.answer(&Method::GET, "/a.html", None, (&fields, 0)).await.unwrap();
        drop(every_place);
        let packed = origin.answer(&Method::GET, "/a.html", None, (&fields, 0)).await.unwrap();
        assert_eq!(plain.fields.get(header::CONTENT_ENCODING), None);
        assert_eq!(packed.fields[header::CONTENT_ENCODING], "gzip");
        assert_eq!(plain.fields[header::VARY], packed.fields[header::VARY]);
        assert_ne!(plain.fields[header::ETAG], packed.fields[header::ETAG]);
        assert_eq!(plain.fields[header::CONTENT_LENGTH], "6000");
    }

    /// Returns whether the origin knows that it would serve a path with this version.
    fn is_known(origin: &FileOrigin, path: &str, version: &[u8]) -> bool {
        origin.is_current(&Earlier {
            version,
            varies: false,
            path,
            request: &http1::Fields::default(),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_answered_is_known_to_be_current_until_it_changes() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("d")).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH;
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::write(&path, text).unwrap();
            fs::File::options().append(true).open(path).unwrap().set_modified(old).unwrap();
        };
        let names = ["d/a", "d/b", "d/index.html", "c"];
        names.iter().for_each(|name| write(name, "text"));
        std::os::unix::fs::symlink("d/a", root.path().join("link")).unwrap();
        std::thread::sleep(PAUSE);
        let origin = FileOrigin::open(root.path(), FileOptions::default()).unwrap();
        let none = HeaderMap::new();
        let mut tags = Vec::new();
        for path in ["/d/a", "/d/b", "/d/", "/c"] {
            let answer = origin.answer(&Method::GET, path, None, (&none, 0)).await.unwrap();
            let tag = answer.fields[VERSION].as_bytes().to_vec();
            assert!(is_known(&origin, path, &tag), "{path}");
            assert!(!is_known(&origin, path, b"other"), "{path}");
            assert!(!is_known(&origin, "/d/other", &tag), "{path}");
            tags.push((path, tag));
        }
        write("d/b", "more text");
        let known: Vec<bool> =
            tags.iter().map(|(path, tag)| is_known(&origin, path, tag)).collect();
        assert_eq!(known, [false, false, false, true]);
        // A symbolic link may lead to a directory that is not watched.
        let answer = origin.answer(&Method::GET, "/link", None, (&none, 0)).await.unwrap();
        assert!(!is_known(&origin, "/link", answer.fields[VERSION].as_bytes()));
    }

    /// Creates a root with these files: each path is followed by its content.
    fn site(files: &[(&str, &str)], options: FileOptions) -> (tempfile::TempDir, Arc<FileOrigin>) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let origin = FileOrigin::open(root.path(), options).unwrap();
        (root, origin)
    }

    async fn group(origin: &FileOrigin, path: &str, fields: &HeaderMap) -> Option<String> {
        let answer = origin.answer(&Method::GET, path, None, (fields, 0)).await.unwrap();
        answer.group.map(|group| group.0.to_string())
    }

    #[tokio::test]
    async fn a_file_is_of_the_group_of_its_directory_and_a_page_of_its_own() {
        let files = ["index.html", "a b/index.html", "notes/intro.html", "notes/x", "notes/x.txt"];
        let mut options = FileOptions::default();
        options.files.clean_urls = true;
        options.files.strip = vec![b"mounted".to_vec()];
        let (_root, origin) = site(&files.map(|path| (path, path)), options);
        for (path, group) in [
            ("/mounted/", Some("/")),
            ("/mounted/index.html", Some("/")),
            ("/mounted//%61%20b/", Some("/a%20b/")),
            ("/mounted/notes/intro", Some("/notes/intro.html")),
            ("/mounted/notes/x", Some("/notes/")),
            ("/mounted/notes/x.txt", Some("/notes/")),
            ("/mounted/notes/none", None),
            ("/mounted/notes", None),
            ("/notes/x", None),
        ] {
            for method in [Method::GET, Method::HEAD] {
                let answer =
                    origin.answer(&method, path, None, (&HeaderMap::new(), 0)).await.unwrap();
                let found = answer.group.as_ref().map(|group| &*group.0);
                assert_eq!(found, group, "{method} {path}");
            }
        }
    }

    #[tokio::test]
    async fn what_only_one_page_refers_to_is_of_its_group() {
        let a =
            "<link rel=stylesheet href=/m/all.css><img src=../img/a.png><img src=/m/img/%62.png>";
        let b =
            "<link rel=stylesheet href=//a.example/m/all.css><img src=http://b.example/m/c.png>";
        let files = [
            ("p/a.html", a),
            ("q/index.html", b),
            ("all.css", ""),
            ("img/a.png", ""),
            ("img/b.png", ""),
            ("img/c.png", ""),
        ];
        let mut options = FileOptions::default();
        options.files.strip = vec![b"m".to_vec()];
        options.files.compress = Compress {
            codings: vec![Coding::Gzip],
            types: vec!["text/html".to_owned()],
            least: 0,
            most: 10_000,
        };
        let (_root, origin) = site(&files, options);
        let host = (header::HOST, HeaderValue::from_static("a.example"));
        let gzip = (header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let plain = HeaderMap::from_iter([host.clone()]);
        let coded = HeaderMap::from_iter([host, gzip]);
        assert_eq!(group(&origin, "/m/img/a.png", &plain).await.unwrap(), "/img/");
        // The page is read in the background while it is being served.
        let known = async |page: &str, fields: &HeaderMap, path: &str, expected: &str| {
            for _ in 0..1_000 {
                group(&origin, page, fields).await.unwrap();
                if group(&origin, path, fields).await.unwrap() == expected {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            panic!("{path} is not of {expected}");
        };
        known("/m/p/a.html", &coded, "/m/img/a.png", "/p/a.html").await;
        assert_eq!(group(&origin, "/m/img/b.png", &plain).await.unwrap(), "/p/a.html");
        assert_eq!(group(&origin, "/m/all.css", &plain).await.unwrap(), "/p/a.html");
        known("/m/q/", &plain, "/m/all.css", "/").await;
        assert_eq!(group(&origin, "/m/img/c.png", &plain).await.unwrap(), "/img/");
        assert_eq!(group(&origin, "/m//img/%61.png", &plain).await.unwrap(), "/p/a.html");
    }
}
