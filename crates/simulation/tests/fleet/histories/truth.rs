//! The truth in a history: the objects and when they were edited, the purges and who must know
//! of them, and when something was wrong that excuses a failed request.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tokio::time::Instant;

use crate::objects::labelled;

/// Objects that are asked for in a history; those behind them are never edited.
pub const COUNT: u32 = 16;

/// A node that was named as one that could not be reached must know of a purge after so long in
/// touch with one that does: the time between two meetings, and two seconds in which it may lag.
const MUST_KNOW: Duration = Duration::from_millis(3_200);

/// Whatever happens to a node, it gives out nothing that a purge concerns so long after the fleet
/// has accepted it: a lease, and a moment for what is under way.
const LEASE: Duration = Duration::from_millis(10_500);

/// For so long a node waits for an answer of the origin.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// After so long the client has seen how that ended.
const SEEN_WITHIN: Duration = Duration::from_millis(200);

/// Whole seconds of an age, at each of the hops.
const AGE_SLACK: Duration = Duration::from_secs(4);

/// See the module.
pub struct Truth {
    pub seed: u64,
    began: Instant,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    /// When each object was edited.
    edits: BTreeMap<u32, Vec<Duration>>,
    purges: Vec<Purge>,
    /// How often the origin was asked for each object.
    asked: BTreeMap<u32, usize>,
    /// When two nodes were last out of touch.
    out_of_touch: BTreeMap<(usize, usize), Duration>,
    /// Times at which a node, or its way to the origin, was bad.
    bad: BTreeMap<usize, Vec<(Duration, Duration)>>,
    /// Times at which the origin answered nothing that it was asked.
    hung: Vec<(Duration, Duration)>,
    notes: Vec<(Duration, String)>,
    wrongs: Vec<(Duration, String)>,
}

/// A purge that was acknowledged.
#[derive(Debug)]
struct Purge {
    /// The versions that may be answered from then on, at least.
    least: BTreeMap<u32, u32>,
    soft: bool,
    at: Duration,
    /// Nodes that must know of it.
    known_by: BTreeSet<usize>,
    /// Enough nodes have it for all others to learn of it.
    is_accepted: bool,
}

/// Oldest response that is still correct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Least {
    version: u32,
    /// Unless it is said to be stale.
    fresh: u32,
}

/// An object as it is in the beginning.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// For so long an answer may be used.
    pub lifetime: Duration,
    /// It must not be used for longer, whatever happens.
    pub strict: bool,
}

impl Truth {
    pub fn new(seed: u64) -> Truth {
        Truth { seed, began: Instant::now(), inner: RefCell::default() }
    }

    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Notes what happens, to be told when something is wrong.
    pub fn note(&self, what: impl Into<String>) {
        let now = self.now();
        self.inner.borrow_mut().notes.push((now, what.into()));
    }

    /// Notes that a promise was broken.
    pub fn wrong(&self, what: String) {
        self.wrong_at(self.now(), what);
    }

    /// Does as [`Truth::wrong`], of something that was noticed later.
    pub fn wrong_at(&self, at: Duration, what: String) {
        self.inner.borrow_mut().wrongs.push((at, what));
    }

    /// Fails with the first promise that was broken, and what had happened before.
    pub fn verdict(&self) {
        let inner = self.inner.borrow();
        let Some((at, what)) = inner.wrongs.iter().min() else { return };
        let before: Vec<_> = inner.notes.iter().filter(|(then, _)| then <= at).collect();
        for (then, note) in &before[before.len().saturating_sub(200)..] {
            eprintln!("{:9.4} {note}", then.as_secs_f64());
        }
        let (seed, at) = (self.seed, at.as_secs_f64());
        panic!("seed {seed}, after {at:.4} s, of {}: {what}", inner.wrongs.len());
    }

    /// The names of an object: its host, its path and its tag.
    pub fn names(object: u32) -> (&'static str, String, String) {
        let host = if object.is_multiple_of(2) { "even.test" } else { "odd.test" };
        (host, format!("/p{}/{object}", object % 3), format!("t{}", object % 4))
    }

    pub fn facts(&self, object: u32) -> Facts {
        let mut random = Rng::with_seed(self.seed << 8 ^ u64::from(object));
        if object >= COUNT {
            return Facts { lifetime: Duration::from_secs(100_000), strict: true };
        }
        Facts { lifetime: Duration::from_secs(random.u64(2..60)), strict: random.bool() }
    }

    /// One that is asked for: some are more often.
    pub fn any(random: &mut Rng) -> u32 {
        random.u32(..COUNT).min(random.u32(..COUNT))
    }

    pub fn edit(&self, object: u32) {
        let now = self.now();
        self.inner.borrow_mut().edits.entry(object).or_default().push(now);
    }

    /// The version that there is now.
    pub fn current(&self, object: u32) -> u32 {
        self.inner.borrow().edits.get(&object).map_or(0, |edits| edits.len() as u32)
    }

    /// The entity tag of a version.
    pub fn tag(object: u32, version: u32) -> String {
        format!("\"{object}-{version}\"")
    }

    /// Returns whether the version with this entity tag had been edited by then.
    pub fn is_past(&self, tag: &str, by: Duration) -> bool {
        let inner = self.inner.borrow();
        let is_past = |(object, edits): (&u32, &Vec<Duration>)| {
            edits
                .iter()
                .zip(0..)
                .any(|(at, version)| *at <= by && Truth::tag(*object, version) == tag)
        };
        inner.edits.iter().any(is_past)
    }

    /// The bytes of a version.
    pub fn bytes(object: u32, version: u32) -> Bytes {
        let mut random = Rng::with_seed(u64::from(object) << 32 | u64::from(version));
        let length = match object % 8 {
            0 => random.usize(100_000..300_000),
            1..=3 => random.usize(5_000..50_000),
            _ => random.usize(50..5_000),
        };
        labelled(format!("{object} {version} "), length, &mut random)
    }

    pub fn note_asked(&self, object: u32) {
        *self.inner.borrow_mut().asked.entry(object).or_default() += 1;
    }

    /// How often the origin was asked for an object.
    pub fn asked(&self, object: u32) -> usize {
        self.inner.borrow().asked.get(&object).copied().unwrap_or_default()
    }

    /// Notes an acknowledged purge: nothing older than the versions in `least` may be answered by
    /// the nodes that know of it, and a lease later by any, if it `is_accepted`.
    pub fn purged(
        &self,
        least: BTreeMap<u32, u32>,
        (soft, is_accepted): (bool, bool),
        known_by: BTreeSet<usize>,
    ) {
        let at = self.now();
        self.inner.borrow_mut().purges.push(Purge { least, soft, at, known_by, is_accepted });
    }

    /// Notes that a node has forgotten what it learnt since then.
    pub fn forget(&self, node: usize, since: Duration) {
        for purge in &mut self.inner.borrow_mut().purges {
            if purge.at >= since {
                purge.known_by.remove(&node);
            }
        }
    }

    /// Notes which nodes cannot hear each other now, and which must have learnt something by now.
    pub fn tick(
        &self,
        nodes: usize,
        is_up: impl Fn(usize) -> bool,
        parted: &BTreeSet<(usize, usize)>,
    ) {
        let now = self.now();
        let mut inner = self.inner.borrow_mut();
        let Inner { purges, out_of_touch, .. } = &mut *inner;
        for a in 0..nodes {
            for b in 0..nodes {
                if !is_up(a) || !is_up(b) || parted.contains(&(a, b)) || parted.contains(&(b, a)) {
                    out_of_touch.insert((a, b), now);
                }
            }
        }
        for purge in purges {
            let told = |a: usize| {
                purge.known_by.iter().any(|b| {
                    let apart = out_of_touch.get(&(a, *b)).copied().unwrap_or_default();
                    now.saturating_sub(apart.max(purge.at)) > MUST_KNOW
                })
            };
            let learnt: Vec<usize> = (0..nodes).filter(|node| told(*node)).collect();
            purge.known_by.extend(learnt);
        }
    }

    /// Returns whether a node was lately out of touch with each of these others.
    pub fn were_apart(&self, node: usize, others: &BTreeSet<usize>) -> bool {
        let (now, inner) = (self.now(), self.inner.borrow());
        let lately = |other: usize| {
            let apart = inner.out_of_touch.get(&(node, other));
            apart.is_some_and(|then| now.saturating_sub(*then) <= MUST_KNOW)
        };
        others.iter().all(|other| *other == node || lately(*other))
    }

    /// Returns the oldest response that a request to `node` may get if it begins now.
    pub fn least(&self, node: usize, object: u32) -> Least {
        let mut least = Least::default();
        let now = self.now();
        let must_know = |purge: &&Purge| {
            let is_late = purge.is_accepted && now.saturating_sub(purge.at) > LEASE;
            is_late || purge.known_by.contains(&node)
        };
        for purge in self.inner.borrow().purges.iter().filter(must_know) {
            let Some(version) = purge.least.get(&object).copied() else { continue };
            least.fresh = least.fresh.max(version);
            if !purge.soft {
                least.version = least.version.max(version);
            }
        }
        least
    }

    /// Notes that requests at a node may fail from `since` until now.
    pub fn was_bad(&self, node: usize, since: Duration) {
        let now = self.now();
        self.inner.borrow_mut().bad.entry(node).or_default().push((since, now));
    }

    /// Notes that the origin answers nothing that it was asked from `since` until now.
    pub fn was_hanging(&self, since: Duration) {
        let now = self.now();
        self.inner.borrow_mut().hung.push((since, now));
    }

    /// Returns whether a body may have broken off because its rest was requested while the origin
    /// hung. All its readers wait for that rest, also those that asked when the origin was well
    /// again.
    pub fn may_lack_its_rest(&self, ended: Duration) -> bool {
        let Some(asked) = ended.checked_sub(HEAD_TIMEOUT) else { return false };
        let inner = self.inner.borrow();
        let mut hung = inner.hung.iter();
        hung.any(|(since, until)| *since <= asked && asked <= *until + SEEN_WITHIN)
    }

    /// Returns whether a request may have failed.
    pub fn may_fail(&self, node: usize, begun: Duration, ended: Duration) -> bool {
        let inner = self.inner.borrow();
        let mut bad = inner.bad.get(&node).into_iter().flatten();
        bad.any(|(since, until)| begun <= *until && ended >= *since)
    }

    /// Judges a whole answer to a request that began then, and returns which version it is.
    pub fn judge(
        &self,
        object: u32,
        (begun, least): (Duration, Least),
        body: &[u8],
        detail: &str,
    ) -> Result<u32, String> {
        let mut words = body.splitn(3, |&byte| byte == b' ');
        let mut number = || {
            let word = words.next().and_then(|word| std::str::from_utf8(word).ok());
            word.and_then(|word| word.parse::<u32>().ok()).ok_or("a body that is not ours")
        };
        let (of, version) = (number()?, number()?);
        if of != object {
            return Err(format!("the answer of {of} for {object}"));
        }
        if body != Truth::bytes(object, version) {
            return Err(format!("wrong bytes of {object}, version {version}"));
        }
        let Facts { lifetime, strict } = self.facts(object);
        let may_be_stale = detail.contains("STALE") && !strict;
        if version < least.version || (version < least.fresh && !may_be_stale) {
            let text = format!("{object} of version {version} was purged: {least:?}, {detail}");
            return Err(text);
        }
        let ended =
            self.inner.borrow().edits.get(&object).and_then(|e| e.get(version as usize).copied());
        let too_old = ended.is_some_and(|ended| ended + lifetime + AGE_SLACK < begun);
        match too_old && !may_be_stale {
            true => Err(format!("{object} of version {version} is too old: {detail}")),
            false => Ok(version),
        }
    }
}
