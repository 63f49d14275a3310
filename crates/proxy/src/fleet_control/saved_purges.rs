//! Which purges this node has, and which are the last of their makers, kept in the store beside the
//! objects that they are about: what is found after a crash, or on an old disk, says no more than
//! has been carried out there.
//!
//! They are in two places, which are written in turn, and so seldom that what is in the one is on
//! the device before the other is written: a crash loses what was written last, and not what was
//! written before.

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use fleet::MemberId;
use store::{Hint, Home, Key, Locality, Lookup};
use tokio::time::sleep;

use crate::object::store::Store;
use crate::peers::purge_state::Saved;

/// Stands in the third line of a node that has lost purges.
const RECOVERING: &str = "recovering";

/// Stands in the third line of a node that is not the only one of its fleet.
const OTHERS: &str = "others";

/// The keys of the two places: no object of a site has them.
const KEYS: [&[u8]; 2] = [b"\0fleet purges 1", b"\0fleet purges 2"];

/// The shortest time between two writes: what was stored so long ago is on the device, by the
/// default of how long it may wait.
pub(crate) const SETTLED: Duration = Duration::from_secs(3);

/// See the module.
pub(crate) struct SavedPurges {
    /// The place that was written last, and when; `None`: before the store was opened.
    last: Cell<(usize, Option<Duration>)>,
}

fn key(place: usize) -> Key {
    // It is short.
    let key = Key::new(Bytes::from_static(KEYS[place]), Locality::default());
    key.unwrap_or_else(|| unreachable!())
}

impl SavedPurges {
    pub fn new() -> SavedPurges {
        SavedPurges { last: Cell::new((1, None)) }
    }

    /// Returns which purges the store had; `None` when nothing says so. What is not found yet while
    /// the store finds out what it has is waited for.
    pub async fn read(&self, store: &Store) -> Option<Saved> {
        loop {
            // Asked first: what comes in between is found.
            let is_complete = store.share().recovered();
            let places = [read(store, 0).await, read(store, 1).await];
            if is_complete || places.iter().all(Option::is_some) {
                return self.newest(places);
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns what both places say together; the one that says less is written next.
    fn newest(&self, places: [Option<Saved>; 2]) -> Option<Saved> {
        let (mut all, other) = match places {
            [Some(first), Some(second)] => {
                self.last.set((usize::from(!first.vector.covers(&second.vector)), None));
                (first, second)
            }
            [one, other] => {
                self.last.set((usize::from(one.is_none()), None));
                (one.or(other)?, Saved::default())
            }
        };
        all.vector.merge(&other.vector);
        all.last.merge(&other.last);
        all.is_recovering |= other.is_recovering;
        all.has_others |= other.has_others;
        all.others.extend(other.others);
        Some(all)
    }

    /// Returns how long before `now` they were saved: long ago, if none were yet.
    pub fn since(&self, now: Duration) -> Duration {
        let (_, written) = self.last.get();
        written.map_or(Duration::MAX, |written| now.saturating_sub(written))
    }

    /// Saves at `now` which purges the store has. Where that fails what was saved before, or
    /// nothing, is found instead.
    pub async fn save(&self, store: &Store, saved: &Saved, now: Duration) {
        let place = 1 - self.last.get().0;
        self.last.set((place, Some(now)));
        let (key, meta) = (key(place), Bytes::from(write(saved)));
        let token = store.begin_fetch(&key);
        // Written within the durability bound: it does not wait in a batch.
        let hint = Hint { home: Home::Disk, ..Hint::default() };
        let saved = match store.insert(&token, &key, meta, hint).await {
            Ok(writer) => writer.commit().await.map(drop),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = saved {
            log::debug!("which purges are carried out was not saved: {refusal}");
        }
    }
}

/// Returns four lines: the vector, the digests of the last purges, words for what else holds, and
/// the names of the other nodes.
fn write(saved: &Saved) -> String {
    let words = [(saved.is_recovering, RECOVERING), (saved.has_others, OTHERS)];
    let words = words.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| *word);
    let others: Vec<String> = saved.others.iter().map(MemberId::to_string).collect();
    let (words, others) = (Vec::from_iter(words).join(" "), others.join(" "));
    format!("{}\n{}\n{words}\n{others}", saved.vector, saved.last)
}

async fn read(store: &Store, place: usize) -> Option<Saved> {
    let Lookup::Hit(entry) = store.lookup(&key(place)).await else { return None };
    parse(std::str::from_utf8(entry.meta()).ok()?)
}

/// Reads what [`write()`] wrote.
fn parse(text: &str) -> Option<Saved> {
    let mut lines = text.split('\n');
    let (vector, last) = (lines.next()?.parse().ok()?, lines.next()?.parse().ok()?);
    let words = lines.next()?;
    let is_so = |word| words.split(' ').any(|said| said == word);
    let (is_recovering, has_others) = (is_so(RECOVERING), is_so(OTHERS));
    let names = lines.next().unwrap_or_default().split(' ');
    let others = names.filter_map(|name| name.parse().ok()).collect();
    Some(Saved { vector, last, is_recovering, has_others, others })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_goes_on_from_the_place_that_says_more() {
        let (none, less, more) = (None, parse("a/1=5\na/1=5:7\n"), parse("a/1=6\na/1=6:8\n"));
        let other = parse("b/1=1\n\nrecovering others\nb c");
        let all = parse("a/1=5;b/1=1\na/1=5:7\nrecovering others\nb c");
        assert_eq!(other.as_ref().map(|saved| saved.others.len()), Some(2));
        for (places, expected, next_place) in [
            ([none.clone(), none.clone()], none.clone(), 0),
            ([less.clone(), none.clone()], less.clone(), 1),
            ([none.clone(), less.clone()], less.clone(), 0),
            ([less.clone(), more.clone()], more.clone(), 0),
            ([more.clone(), less.clone()], more.clone(), 1),
            ([less.clone(), other.clone()], all, 0),
        ] {
            let saved = SavedPurges::new();
            let found = saved.newest(places.clone());
            assert_eq!(found, expected, "{places:?}");
            assert_eq!(found.as_ref().and_then(|found| parse(&write(found))), found);
            assert_eq!(1 - saved.last.get().0, next_place, "{places:?}");
            assert_eq!(saved.since(Duration::ZERO), Duration::MAX);
        }
    }
}
