//! Objects such as those of the web: lognormal sizes, median 3.3 KB, mean 12 KB; bodies of filler.

use bytes::Bytes;
use device::Device;
use store::{FetchToken, Hint, Key, Kind, Locality, Lookup, Store};
use testkit::pages;

use super::TokioClock;
use super::elided::FILLER;

/// A cache on any device.
pub type Cache<D> = Store<D, TokioClock>;

/// Bytes of the metadata of an object.
const META_LEN: usize = 200;

/// The key of an object.
pub fn key(number: usize) -> Key {
    let url = format!("f http://site{}.example/path/object-{number}", number % 1000);
    let locality = Locality { site: number as u64 % 1000, group: number as u64 % 10_000 };
    Key::new(url.into(), locality).unwrap()
}

/// Bytes of the body of an object, the same for a number every time.
pub fn body_len(number: usize) -> usize {
    pages::body_len(number as u64)
}

/// All bodies are parts of this one.
pub fn filler() -> Bytes {
    Bytes::from(vec![FILLER; pages::BODY_MAX])
}

/// Metadata of an object.
pub fn metadata(filler: &Bytes) -> Bytes {
    filler.slice(..META_LEN)
}

/// Stores an object of `len` bytes; false when it was refused.
pub async fn insert<D: Device>(
    cache: &Cache<D>,
    number: usize,
    len: usize,
    filler: &Bytes,
) -> bool {
    store(cache, &key(number), metadata(filler), filler.slice(..len)).await
}

/// Stores an object that is fetched in no time; false when it was refused.
pub async fn store<D: Device>(cache: &Cache<D>, key: &Key, meta: Bytes, body: Bytes) -> bool {
    let token = cache.begin_fetch(key);
    store_fetched(cache, &token, key, meta, body, Kind::default()).await
}

/// Stores an object whose fetch began with `token`; false when it was refused.
pub async fn store_fetched<D: Device>(
    cache: &Cache<D>,
    token: &FetchToken,
    key: &Key,
    meta: Bytes,
    body: Bytes,
    kind: Kind,
) -> bool {
    let hint = Hint { size: Some(body.len() as u64), kind, ..Hint::default() };
    let Ok(mut writer) = cache.insert(token, key, meta, hint).await else { return false };
    writer.write(body).await.is_ok() && writer.commit().await.is_ok()
}

/// Looks an object up and reads all of it; false when it is not there.
pub async fn look_up<D: Device>(cache: &Cache<D>, number: usize) -> bool {
    read_whole(cache, &key(number)).await
}

/// Looks a key up and reads all of the object; false when it is not there.
pub async fn read_whole<D: Device>(cache: &Cache<D>, key: &Key) -> bool {
    let Lookup::Hit(entry) = cache.lookup(key).await else { return false };
    if entry.whole().is_some() {
        return true;
    }
    let mut body = entry.body(0..entry.len());
    while let Some(part) = body.next().await {
        if part.is_err() {
            return false;
        }
    }
    true
}
