//! The store as the proxy uses it: the keys of objects, the metadata beside their bodies, and how a
//! request finds its variant.

use std::any::Any;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use device::AnyDevice;
use http::header::HeaderValue;
use http::{HeaderMap, Method, header};
use net::clock::TokioClock;
use semantics::packed::Flag::HeadOnly;
use semantics::packed::Packed;
use semantics::sparse::Layout;
use semantics::{Meta, SparseHead, StoredHead, Time, Url, VaryMarker, cache_key, date};
use store::{Key, Locality, Lookup, Source};

use crate::observe::cache_status::CACHE_STATUS;

/// The store over any device, in real time.
pub type Store = store::Store<AnyDevice, TokioClock>;

/// A stored object.
pub(crate) type Entry = store::Entry<AnyDevice, TokioClock>;

/// A stored object that is being written.
pub(crate) type Writer = store::Writer<AnyDevice, TokioClock>;

/// The body of a stored object.
pub(crate) type Body = store::Body<AnyDevice, TokioClock>;

/// Parsed heads kept beside objects in memory, at most: some 12 MiB together. The store cannot
/// count them, so there must be few; the objects that are asked for most get them first.
const ATTACHED_MAX: usize = 8192;

static ATTACHED: AtomicUsize = AtomicUsize::new(0);

/// Returns what the keys of all objects of a site begin with: of a reverse site by its name, `None`
/// for the forward proxy.
pub fn key_prefix(site: Option<&str>) -> String {
    site.map_or_else(|| "forward".to_owned(), |site| format!("site {site}"))
}

/// Returns the key of the object that `url` is on the site of a [`key_prefix`]. A removal under
/// this key reaches all its variants. `None` when it is too long.
pub fn primary_key(prefix: &str, url: &Url) -> Option<Key> {
    Key::new(cache_key::primary(prefix, url), locality(url))
}

/// Returns the FNV-1a hashes of the URL's site and of its directory.
fn locality(url: &Url) -> Locality {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let site = url.site().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    let group = url.group().as_bytes()[url.site().len()..].iter().fold(site, step);
    Locality { site, group }
}

/// Returns the key of a request's variant under a marker; `None` when it is too long.
pub(crate) fn variant_key(primary: &Key, marker: &VaryMarker, request: &HeaderMap) -> Option<Key> {
    let bytes = cache_key::variant(primary.as_bytes(), marker, request);
    Key::new(bytes, primary.locality())
}

/// The head of a stored answer, as a hit uses it.
#[derive(Debug)]
pub(crate) enum Head {
    /// Read from the metadata for this request.
    Own(StoredHead),
    /// Kept beside the object: the fields of a fresh hit from memory, with places for `Age` and
    /// `Cache-Status`.
    Ready(Arc<Ready>),
}

/// A parsed head that is kept beside its object in memory ([`Head::Ready`]).
#[derive(Debug)]
pub(crate) struct Ready {
    pub head: StoredHead,
    pub fields: HeaderMap,
}

impl Drop for Ready {
    fn drop(&mut self) {
        ATTACHED.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Head {
    pub fn stored(&self) -> &StoredHead {
        match self {
            Head::Own(head) => head,
            Head::Ready(ready) => &ready.head,
        }
    }

    pub fn packed(&self) -> &Packed {
        self.stored().packed()
    }
}

/// The result of a lookup.
pub(crate) enum LookupResult {
    /// A stored answer. Its key is the variant's, if there are variants.
    Stored(Rc<StoredResponse>),
    /// Nothing. With a marker there are variants, but not this one.
    Nothing { key: Key, marker: Option<VaryMarker> },
}

/// A stored answer.
pub(crate) struct StoredResponse {
    pub key: Key,
    pub marker: Option<VaryMarker>,
    pub entry: Entry,
    pub head: Head,
    /// It is stored in parts: `entry` has the trunk at most.
    pub sparse: Option<Layout>,
}

impl StoredResponse {
    fn new(
        key: Key,
        marker: Option<VaryMarker>,
        entry: Entry,
        read: ReadHead,
    ) -> Rc<StoredResponse> {
        let ReadHead { head, sparse } = read;
        Rc::new(StoredResponse { key, marker, entry, head, sparse })
    }

    /// Returns whether the origin made it after `other`, by its `Date`; when these are equal,
    /// whether it was received later.
    fn is_later_than(&self, other: &StoredResponse) -> bool {
        let when = |answer: &StoredResponse| {
            let received = answer.head.packed().received();
            let made = date::of_field(answer.head.stored().headers(), &header::DATE, received);
            (made, received)
        };
        when(self) > when(other)
    }

    /// Returns whether it is the answer to a HEAD: there is no body.
    pub fn is_of_head(&self) -> bool {
        self.head.packed().is(HeadOnly)
    }

    /// Returns the length of the whole body in bytes.
    pub fn length(&self) -> u64 {
        self.sparse.map_or(self.entry.len(), |layout| layout.length)
    }

    /// Returns the store's metadata for this answer with another head.
    pub fn encode(&self, head: &StoredHead) -> Bytes {
        match self.sparse {
            Some(layout) => SparseHead { layout, head: head.clone() }.encode(),
            None => head.encode(),
        }
    }
}

/// Looks an object up, through its marker if it has one. The answer to a HEAD is found for HEADs
/// only. `None`: the variant's key is too long.
pub(crate) async fn find(
    store: &Store,
    primary: &Key,
    method: &Method,
    request: &HeaderMap,
) -> Option<LookupResult> {
    let is_for = |read: &ReadHead| *method == Method::HEAD || !read.head.packed().is(HeadOnly);
    let Lookup::Hit(entry) = store.lookup(primary).await else {
        return Some(LookupResult::Nothing { key: primary.clone(), marker: None });
    };
    let marker = match read(&entry) {
        Some(Read::Head(read)) if is_for(&read) => {
            let key = primary.clone();
            return Some(LookupResult::Stored(StoredResponse::new(key, None, entry, read)));
        }
        Some(Read::Marker(marker)) => marker,
        Some(Read::Head(_)) | None => {
            return Some(LookupResult::Nothing { key: primary.clone(), marker: None });
        }
    };
    find_selected(store, primary, marker, request, is_for).await
}

/// Looks for what a request selects among the variants under a marker: the latest under any of its
/// sets of fields (RFC 9111, 4). A variant that is not stored would have its key by the latest set.
async fn find_selected(
    store: &Store,
    primary: &Key,
    mut marker: VaryMarker,
    request: &HeaderMap,
    is_for: impl Fn(&ReadHead) -> bool,
) -> Option<LookupResult> {
    let mut latest: Option<Rc<StoredResponse>> = None;
    for number in 0..marker.count() {
        marker.choose(number);
        let Some(key) = variant_key(primary, &marker, request) else { continue };
        if let Lookup::Hit(entry) = store.lookup(&key).await
            && let Some(Read::Head(read)) = read(&entry)
            && is_for(&read)
        {
            let found = StoredResponse::new(key, Some(marker.clone()), entry, read);
            if latest.as_ref().is_none_or(|latest| found.is_later_than(latest)) {
                latest = Some(found);
            }
        }
    }
    if let Some(answer) = latest {
        return Some(LookupResult::Stored(answer));
    }
    marker.choose(0);
    let key = variant_key(primary, &marker, request)?;
    Some(LookupResult::Nothing { key, marker: Some(marker) })
}

/// Returns the answer that is stored whole under a variant's key.
pub(crate) async fn find_variant(
    store: &Store,
    key: &Key,
    marker: &VaryMarker,
) -> Option<Rc<StoredResponse>> {
    let Lookup::Hit(entry) = store.lookup(key).await else { return None };
    let Read::Head(read) = read(&entry)? else { return None };
    let is_whole = read.sparse.is_none() && !read.head.packed().is(HeadOnly);
    is_whole.then(|| StoredResponse::new(key.clone(), Some(marker.clone()), entry, read))
}

/// Returns the sparse object with this epoch, if it is still stored under `key`.
pub(crate) async fn find_sparse(
    store: &Store,
    key: &Key,
    marker: Option<VaryMarker>,
    epoch: u128,
) -> Option<Rc<StoredResponse>> {
    let Lookup::Hit(entry) = store.lookup(key).await else { return None };
    let Ok(Meta::Sparse(sparse)) = Meta::decode(entry.meta()) else { return None };
    let read = ReadHead { head: Head::Own(sparse.head), sparse: Some(sparse.layout) };
    (sparse.layout.epoch == epoch).then(|| StoredResponse::new(key.clone(), marker, entry, read))
}

/// Returns the whole answer that is in memory under `key`, whose marker is known. It does not count
/// as a use, and no device is read.
pub(crate) fn resident(
    store: &Store,
    key: &Key,
    marker: Option<VaryMarker>,
) -> Option<Rc<StoredResponse>> {
    let entry = store.resident(key)?;
    match read(&entry)? {
        Read::Head(read) if read.sparse.is_none() => {
            Some(StoredResponse::new(key.clone(), marker, entry, read))
        }
        _ => None,
    }
}

/// Returns the marker that is in memory under `primary`, as [`resident`] finds answers.
pub(crate) fn resident_marker(store: &Store, primary: &Key) -> Option<VaryMarker> {
    read(&store.resident(primary)?)?.into_marker()
}

enum Read {
    Head(ReadHead),
    Marker(VaryMarker),
}

impl Read {
    fn into_marker(self) -> Option<VaryMarker> {
        match self {
            Read::Marker(marker) => Some(marker),
            Read::Head(_) => None,
        }
    }
}

struct ReadHead {
    head: Head,
    sparse: Option<Layout>,
}

impl ReadHead {
    fn whole(head: Head) -> Read {
        Read::Head(ReadHead { head, sparse: None })
    }
}

/// Reads the metadata of an entry; `None` when they are not the proxy's, of another version, or of
/// a part.
fn read(entry: &Entry) -> Option<Read> {
    let Some(since) = entry.outdated_since() else { return read_as_stored(entry) };
    // It was outdated by a soft purge: the head that is kept beside the object does not say so.
    let outdated = |head: StoredHead| Head::Own(head.outdated(Time::from_unix(since)));
    match Meta::decode(entry.meta()) {
        Ok(Meta::Head(head)) => Some(ReadHead::whole(outdated(head))),
        Ok(Meta::Sparse(SparseHead { layout, head })) => {
            Some(Read::Head(ReadHead { head: outdated(head), sparse: Some(layout) }))
        }
        _ => read_as_stored(entry),
    }
}

fn read_as_stored(entry: &Entry) -> Option<Read> {
    let attachment = entry.attachment();
    if let Some(ready) = attachment.and_then(OnceLock::get)
        && let Ok(ready) = ready.clone().downcast::<Ready>()
    {
        return Some(ReadHead::whole(Head::Ready(ready)));
    }
    let head = match Meta::decode(entry.meta()) {
        Ok(Meta::Head(head)) => head,
        Ok(Meta::Marker(marker)) => return Some(Read::Marker(marker)),
        Ok(Meta::Sparse(SparseHead { layout, head })) => {
            return Some(Read::Head(ReadHead { head: Head::Own(head), sparse: Some(layout) }));
        }
        Ok(Meta::Part(_)) => return None,
        Err(error) => {
            log::warn!("a stored object is ignored: {error}");
            return None;
        }
    };
    match attachment {
        // An object from the device may leave memory before it is asked for again.
        Some(place) if entry.source() == Source::Ram && take_attachment() => {
            let mut fields = head.headers().clone();
            fields.insert(header::AGE, HeaderValue::from_static("0"));
            fields.entry(CACHE_STATUS).or_insert(HeaderValue::from_static(""));
            let ready = Arc::new(Ready { head, fields });
            // Another worker may have been faster: its copy is as good.
            let _ = place.set(ready.clone() as Arc<dyn Any + Send + Sync>);
            Some(ReadHead::whole(Head::Ready(ready)))
        }
        _ => Some(ReadHead::whole(Head::Own(head))),
    }
}

/// Counts one more kept head and returns true, unless there are too many. The count goes down when
/// a [`Ready`] is dropped.
fn take_attachment() -> bool {
    let taken = ATTACHED.fetch_add(1, Ordering::Relaxed) < ATTACHED_MAX;
    if !taken {
        ATTACHED.fetch_sub(1, Ordering::Relaxed);
    }
    taken
}

/// Stores a marker, an object without a body. The marker that it extends must still be there: it
/// was read before the fetch began, and what was removed since must not come back. A later removal
/// overtakes the fetch.
pub(crate) async fn insert_marker(
    store: &Store,
    token: &store::FetchToken,
    primary: &Key,
    marker: &VaryMarker,
) -> Result<(), store::Refusal> {
    let stored = match store.lookup(primary).await {
        Lookup::Hit(entry) => read(&entry).and_then(Read::into_marker),
        _ => None,
    };
    if !marker.carries_on(stored.as_ref()) {
        return Err(store::Refusal::Overtaken);
    }
    let hint = store::Hint { size: Some(0), ..store::Hint::default() };
    let meta: Bytes = marker.encode();
    store.insert(token, primary, meta, hint).await?.commit().await
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use device::MemoryDevice;
    use semantics::vary::Vary;

    use super::*;

    #[test]
    fn fronts_and_sites_do_not_share_objects() {
        let url = Url::parse("http://a.example/x").unwrap();
        let keys =
            [None, Some("a"), Some("b")].map(|site| primary_key(&key_prefix(site), &url).unwrap());
        assert_ne!(keys[0], keys[1]);
        assert_ne!(keys[1], keys[2]);
    }

    #[test]
    fn neighbours_share_group_and_site() {
        let place = |text: &str| locality(&Url::parse(text).unwrap());
        let (a, b) = (place("http://a.example/d/x"), place("http://a.example/d/y?q=/z/"));
        assert_eq!(a, b);
        let c = place("http://a.example/e/x");
        assert!(a.site == c.site && a.group != c.group);
        assert_ne!(a.site, place("http://b.example/d/x").site);
    }

    #[tokio::test(flavor = "local")]
    async fn a_marker_brings_nothing_back_that_was_removed_after_it_was_read() {
        let store = empty_store().await;
        let primary = primary_key("forward", &Url::parse("http://a.example/x").unwrap()).unwrap();
        let names = |name: &str| vec![name.parse().unwrap()];
        let old = VaryMarker::new(1, &names("accept"));
        insert_marker(&store, &store.begin_fetch(&primary), &primary, &old).await.unwrap();
        let wider = old.with(&Vary::Names(names("accept-language")), 2);
        store.remove(&primary).await;
        // The fetch begins after the removal, so that nothing overtakes it.
        let token = store.begin_fetch(&primary);
        let stored = insert_marker(&store, &token, &primary, &wider).await;
        assert_eq!(stored, Err(store::Refusal::Overtaken));
        assert_eq!(resident_marker(&store, &primary), None);
        insert_marker(&store, &token, &primary, &old).await.unwrap();
        insert_marker(&store, &token, &primary, &wider).await.unwrap();
        assert_eq!(resident_marker(&store, &primary), Some(wider));
    }

    async fn empty_store() -> Store {
        let device = AnyDevice::Memory(MemoryDevice::new(64 << 20, 4096));
        let format = store::FormatOptions::default();
        Box::pin(store::format(&device, &format, [7; 48], 0)).await.unwrap();
        let options = store::Options::default();
        let opened =
            Box::pin(Store::open(vec![Rc::new(device)], TokioClock::system(), options)).await;
        let store = opened.unwrap();
        let background = store.clone();
        tokio::task::spawn_local(async move { background.run_background().await });
        store
    }
}
