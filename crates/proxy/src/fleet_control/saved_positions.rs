//! The positions in the logs of purges, kept in the store beside the objects that they are about:
//! what is found after a crash, or on an old disk, says no more than has been carried out there.

use bytes::Bytes;
use fleet::PurgePositions;
use store::{Hint, Key, Locality, Lookup};

use crate::object::store::Store;

/// The key: no object of a site has it.
const KEY: &[u8] = b"\0fleet positions 1";

fn key() -> Key {
    // It is short.
    Key::new(Bytes::from_static(KEY), Locality::default()).unwrap_or_else(|| unreachable!())
}

/// Returns the positions that were saved last; `None` when they are not there.
pub(crate) async fn read(store: &Store) -> Option<PurgePositions> {
    let Lookup::Hit(entry) = store.lookup(&key()).await else { return None };
    std::str::from_utf8(entry.meta()).ok()?.parse().ok()
}

/// Saves positions. Where that fails what was saved before, or nothing, is found instead.
pub(crate) async fn save(store: &Store, positions: &PurgePositions) {
    let (key, meta) = (key(), Bytes::from(positions.to_string()));
    let token = store.begin_fetch(&key);
    let saved = match store.insert(&token, &key, meta, Hint::default()).await {
        Ok(writer) => writer.commit().await.map(drop),
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = saved {
        log::debug!("the positions in the logs of purges were not saved: {refusal}");
    }
}
