//! The handle on a store that runs on threads of its own: from a runtime that moves tasks between
//! threads, through closing, reopening, panics and more requests than its threads accept.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use device::CacheFile;
use larder_store::{
    HandleError, HandleOpenError, HandleOptions, Hint, Key, Label, Labels, Mode, OpenError,
    Options, StoreHandle,
};
use store_oracle::{State, key};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Size of each file in bytes.
const LEN: u64 = 16 << 20;
/// The label of every object with an even key number.
const EVEN: (u8, &[u8]) = (b't', b"even");

struct EvenLabel;

impl Labels for EvenLabel {
    fn version(&self) -> u64 {
        1
    }

    fn labels(&self, _: &[u8], meta: &[u8], see: &mut dyn FnMut(Label<'_>)) {
        let state = State::from_meta(&Bytes::copy_from_slice(meta)).unwrap();
        if state.key.is_multiple_of(2) {
            see(Label { kind: EVEN.0, name: EVEN.1 });
        }
    }

    fn text<'a>(&self, _: &'a [u8]) -> Option<&'a [u8]> {
        None
    }
}

fn file(directory: &Path, number: usize) -> Arc<CacheFile> {
    let options = device::OpenOptions { create: Some(LEN), ..device::OpenOptions::default() };
    CacheFile::open(&directory.join(number.to_string()), &options).unwrap()
}

async fn open(directory: &Path, files: usize, backlog: usize) -> StoreHandle {
    let files = (0..files).map(|number| file(directory, number)).collect();
    let labels = Some(Arc::new(EvenLabel) as Arc<dyn Labels>);
    let store = Options { memory: 16 << 20, labels, ..Options::default() };
    let options = HandleOptions { store, backlog, ..HandleOptions::default() };
    StoreHandle::open(files, options).await.unwrap()
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The state stored under the key with this number: some are larger than one record.
fn state(number: u32) -> State {
    let len = if number.is_multiple_of(9) { 400_000 } else { u64::from(number) * 37 };
    State { key: number, version: number, meta: 0, len }
}

async fn insert(handle: &StoreHandle, number: u32) -> Result<(), HandleError> {
    let (key, state) = (key(number), state(number));
    let token = handle.begin_fetch(&key).await?;
    handle.insert(&token, &key, state.meta_bytes(), state.body(), Hint::default()).await
}

/// Looks the object up; returns whether it is there, as it was stored.
async fn is_there(handle: &StoreHandle, number: u32) -> bool {
    let Some(found) = handle.get(&key(number)).await.unwrap() else { return false };
    assert_eq!((&found.meta, &found.body), (&state(number).meta_bytes(), &state(number).body()));
    assert_eq!(found.outdated_since, None);
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_on_several_threads_share_the_store_on_two_devices() {
    let directory = directory();
    let handle = open(directory.path(), 2, 8).await;
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let handle = handle.clone();
        tasks.spawn(async move {
            for number in (task..120).step_by(8) {
                insert(&handle, number).await.unwrap();
                assert!(is_there(&handle, number).await, "{number}");
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert!(handle.remove(&key(1)).await.unwrap());
    assert!(!handle.remove(&key(1)).await.unwrap());
    assert!(handle.purge(&key(3)).await.unwrap());
    handle.purge_label(EVEN.0, EVEN.1, Mode::Hard).await.unwrap();
    // Any thread serves any key.
    let devices = handle.run(&key(5), async |store| store.stats().len()).await.unwrap();
    assert_eq!(devices, 2);
    assert_eq!(handle.close().await, Ok(true));
    let handle = open(directory.path(), 2, 8).await;
    for number in 0..120 {
        let stored = number % 2 == 1 && number != 1 && number != 3;
        assert_eq!(is_there(&handle, number).await, stored, "{number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn closing_saves_what_was_acknowledged_and_refuses_the_rest() {
    let directory = directory();
    let handle = open(directory.path(), 2, 2).await;
    let mut tasks = JoinSet::new();
    let (first, acknowledged) = oneshot::channel();
    let mut first = Some(first);
    for number in 0..60 {
        let (handle, first) = (handle.clone(), first.take());
        tasks.spawn(async move {
            let result = insert(&handle, number).await;
            first.map(|first| first.send(()));
            (number, result)
        });
    }
    acknowledged.await.unwrap();
    assert_eq!(handle.close().await, Ok(true));
    assert_eq!(handle.get(&key(0)).await, Err(HandleError::Closed));
    assert_eq!(insert(&handle, 0).await, Err(HandleError::Closed));
    assert_eq!(handle.close().await, Err(HandleError::Closed));
    let mut stored = Vec::new();
    while let Some(task) = tasks.join_next().await {
        match task.unwrap() {
            (number, Ok(())) => stored.push(number),
            (_, Err(error)) => assert_eq!(error, HandleError::Closed),
        }
    }
    assert!(!stored.is_empty());
    let handle = open(directory.path(), 2, 2).await;
    for number in stored {
        assert!(is_there(&handle, number).await, "{number}");
    }
}

#[tokio::test]
async fn a_caller_waits_while_the_backlog_is_full() {
    let directory = directory();
    let handle = open(directory.path(), 1, 1).await;
    let (release, released) = oneshot::channel::<()>();
    let blocking = handle.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { blocking.run(&key(0), async move |_| released.await.is_ok()).await });
    // One that the thread has received, and one in its channel.
    for _ in 0..2 {
        let waiting = handle.clone();
        tasks.spawn(async move { waiting.run(&key(0), async |_| true).await });
    }
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let limit = Duration::from_millis(100);
    let refused = tokio::time::timeout(limit, handle.get(&key(0))).await;
    assert!(refused.is_err(), "{refused:?}");
    release.send(()).unwrap();
    while let Some(task) = tasks.join_next().await {
        assert_eq!(task.unwrap(), Ok(true));
    }
    assert_eq!(handle.get(&key(0)).await, Ok(None));
}

#[tokio::test]
async fn a_job_that_panics_costs_its_caller_alone() {
    let directory = directory();
    let handle = open(directory.path(), 1, 4).await;
    insert(&handle, 1).await.unwrap();
    let result = handle.run(&key(1), async |_| -> () { panic!("as the test wants") }).await;
    assert_eq!(result, Err(HandleError::Closed));
    assert!(is_there(&handle, 1).await);
    assert_eq!(handle.close().await, Ok(true));
}

#[tokio::test]
async fn a_dropped_handle_closes_the_store_and_a_foreign_file_is_refused() {
    let directory = directory();
    let handle = open(directory.path(), 1, 4).await;
    insert(&handle, 1).await.unwrap();
    drop(handle);
    // Waits until the thread has released the lock of the file.
    let handle = open(directory.path(), 1, 4).await;
    assert!(is_there(&handle, 1).await);
    let foreign = directory.path().join("foreign");
    std::fs::write(&foreign, vec![7; LEN as usize]).unwrap();
    let file = CacheFile::open(&foreign, &device::OpenOptions::default()).unwrap();
    let opened = StoreHandle::open(vec![file], HandleOptions::default()).await.map(|_| ());
    let Err(HandleOpenError::Open(error)) = opened else { panic!("{opened:?}") };
    assert_eq!((error.device, error.reason), (0, OpenError::NotOurs));
    let none = StoreHandle::open(Vec::new(), HandleOptions::default()).await.map(|_| ());
    assert!(matches!(none, Err(HandleOpenError::NoFile)));
}

/// The key and the token of a fetch move between threads as the handle does.
#[test]
fn handles_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<(StoreHandle, larder_store::FetchToken, Key)>();
}
