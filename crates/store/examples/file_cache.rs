//! Stores an object in a cache file, closes the store, opens it again and reads the object.

#![allow(clippy::print_stdout)]

use bytes::Bytes;
use larder_store::device::{CacheFile, OpenOptions};
use larder_store::{HandleOptions, Hint, Key, Locality, StoreHandle};

async fn open(path: &std::path::Path) -> Result<StoreHandle, Box<dyn std::error::Error>> {
    let options = OpenOptions { create: Some(64 << 20), ..OpenOptions::default() };
    let file = CacheFile::open(path, &options)?;
    Ok(StoreHandle::open(vec![file], HandleOptions::default()).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("file-cache-{}", std::process::id()));
    // Keys with equal `group`, here all of one directory, are stored next to each other.
    let locality = Locality { site: 1, group: 1 };
    let key = Key::new(Bytes::from_static(b"https://example.com/a"), locality).ok_or("too long")?;

    let store = open(&path).await?;
    // Begin the fetch before asking the origin: a purge in between refuses the insertion.
    let fetch = store.begin_fetch(&key).await?;
    let (meta, body) = (Bytes::from_static(b"text/plain"), Bytes::from_static(b"Hello"));
    store.insert(&fetch, &key, meta, body, Hint::default()).await?;
    store.close().await?;

    let store = open(&path).await?;
    let found = store.get(&key).await?.ok_or("the object is not stored")?;
    println!("{:?}: {:?}", found.meta, found.body);
    store.close().await?;
    Ok(std::fs::remove_file(&path)?)
}
