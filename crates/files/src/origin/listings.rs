//! Directory listings. A listing can occupy a processor for long, so only a few are generated at a
//! time. A queued request shares a listing of the same directory that was generated while it
//! waited. Many requests for one listing, even with their clients gone, thus delay others no longer
//! than a few would.
//!
//! Guarantees: a request gets a listing whose generation began after the request arrived.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::{ListingPage, ListingQuery};

use crate::origin::pool::Pool;

#[derive(Clone, Debug, Default)]
pub(crate) struct Listings(Arc<Mutex<Option<Made>>>);

/// The most recently generated listing.
#[derive(Debug)]
struct Made {
    path: String,
    wanted: ListingQuery,
    began: Instant,
    page: Arc<ListingPage>,
}

impl Listings {
    /// Returns the listing of the directory at `path`, which `make` generates. Returns `None` if
    /// its turn did not come in time.
    ///
    /// # Errors
    /// Fails if the program is ending or `make` fails.
    pub async fn get(
        &self,
        pool: &Pool,
        (path, wanted): (&str, ListingQuery),
        make: impl FnOnce() -> io::Result<ListingPage> + Send + 'static,
    ) -> io::Result<Option<Arc<ListingPage>>> {
        let (asked, last, path) = (Instant::now(), self.clone(), path.to_owned());
        let ahead = || self.made_since(asked, &path, &wanted).map(Ok);
        let own = path.clone();
        let work = move || {
            let began = Instant::now();
            let page = Arc::new(make()?);
            *last.lock() = Some(Made { path: own, wanted, began, page: page.clone() });
            Ok(page)
        };
        let page = pool.run_long(ahead, work).await?;
        if !pool.is_long_full() {
            // No waiting request could share it.
            *self.lock() = None;
        }
        page.transpose()
    }

    fn made_since(
        &self,
        asked: Instant,
        path: &str,
        wanted: &ListingQuery,
    ) -> Option<Arc<ListingPage>> {
        let last = self.lock();
        let is_same =
            |made: &&Made| made.began >= asked && made.path == path && made.wanted == *wanted;
        last.as_ref().filter(is_same).map(|made| made.page.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Made>> {
        // No code panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn those_that_wait_for_the_same_listing_share_it() {
        let (listings, pool) = (Listings::default(), Pool::new());
        let made = Arc::new(AtomicUsize::new(0));
        let tasks = (0..100).map(|_| {
            let (listings, pool, made) = (listings.clone(), pool.clone(), made.clone());
            tokio::spawn(async move {
                let make = move || {
                    std::thread::sleep(Duration::from_millis(5));
                    made.fetch_add(1, Ordering::SeqCst);
                    Ok(ListingPage {
                        text: String::new(),
                        media_type: "text/html",
                        next: None,
                        etag: String::new(),
                    })
                };
                listings.get(&pool, ("/", ListingQuery::default()), make).await
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            assert!(task.await.unwrap().unwrap().is_some());
        }
        assert!(made.load(Ordering::SeqCst) <= 10, "{made:?}");
        assert!(listings.lock().is_none());
    }
}
