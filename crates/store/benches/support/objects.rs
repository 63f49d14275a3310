//! Objects with bodies of filler, stored and read.

use bytes::Bytes;
use device::{Device, SystemClock};
use larder_store::{FetchToken, Hint, Key, Kind, Lookup, Store};
use testkit::pages;

use super::elided::FILLER;

/// A cache on any device.
pub type Cache<D> = Store<D, SystemClock>;

/// Bytes of the metadata of an object.
const META_LEN: usize = 200;

/// All bodies are parts of this one.
pub fn filler() -> Bytes {
    Bytes::from(vec![FILLER; pages::BODY_MAX])
}

/// Metadata of an object.
pub fn metadata(filler: &Bytes) -> Bytes {
    filler.slice(..META_LEN)
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
