//! This node of a fleet and its knowledge of the other nodes, shared by all workers.
//!
//! Guarantee: no call waits, neither for another node nor for gossip. The knowledge may be old or
//! wrong, which costs a question and never an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use fleet::breaker::Permit;
use fleet::class::{Class, DocumentFacts, LookupStep, Policy};
use fleet::document_memory::{DocumentMemory, Remembered};
use fleet::hints::Hints;
use fleet::lookup::{Ask, Asked, LookupPlan, Request, View};
use fleet::member::{Address, State};
use fleet::members::MEMBERS_MAX;
use fleet::placement::{self, LoadBound};
use fleet::popularity::{Hotness, RequestCounts};
use fleet::purges::order::Patience;
use fleet::purges::replica::Config;
use fleet::purges::{Consistency, Vector};
use fleet::round_trips::PATIENCE_MAX;
use fleet::{ClassTable, FleetSeed, KeyHash, Member, MemberId, Members, Protocols};
use membership::{Lost, Membership};
use net::clock::TokioClock;
use rustls::ClientConfig;
use upstream::settings::endpoint::Endpoint;
use upstream::settings::limits::UpstreamLimits;
use upstream::settings::lookup;
use upstream::settings::tls::Tls;

use crate::peers::breakers::Breakers;
use crate::peers::copy_notices::{CopyNotice, CopyNotices, NoticedDocument};
use crate::peers::demand::Demand;
use crate::peers::greeted::Greeted;
use crate::peers::offering::Offering;
use crate::peers::purge_state::{Heard, PurgeState};
use crate::peers::roster::{Peer, Roster, endpoint};
use crate::peers::tally::Tally;

/// The name that nodes ask each other for in TLS; who they are follows from their keys.
const TLS_NAME: &str = "larder.fleet";

/// Maximum number of idle connections that a worker keeps to another node.
const IDLE_PER_NODE: usize = 64;

/// Maximum size of the head of another node's response in bytes: that of an origin, and the fields
/// that nodes add.
const HEAD_BYTES: usize = 256 << 10;

/// Time after which a connection to another node counts as lost if nothing gets through. A body
/// that was awaited on it is then fetched elsewhere.
const LOSS_BOUND: Duration = Duration::from_secs(4);

/// A node that has not answered for so long is not waited for by purges.
const FAILING: Duration = Duration::from_secs(1);

/// Span of time in which requests are counted for classes by popularity; the one before counts,
/// too.
const POPULARITY_SPAN: Duration = Duration::from_secs(300);

/// How long it counts that another node has said that a node is there.
const TOLD_OF: Duration = Duration::from_secs(5);

/// A node that left in order and comes back uses no copies for at least so long, unless it has met
/// all others.
const COMES_BACK: Duration = Duration::from_secs(10);

/// Number of slots for the times at which origins were reached.
const SLOTS: usize = 64;

/// Configuration of a fleet node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Its own description at start.
    pub own: Member,
    /// The number that the fleet shares.
    pub seed: FleetSeed,
    /// The classes of documents, and what is done with each.
    pub classes: ClassTable,
    /// TLS towards the other nodes; `None`: they are spoken to without.
    pub tls: Option<Arc<ClientConfig>>,
    /// How far above its share of the load an owner may be; `None`: no bound.
    pub bound: Option<LoadBound>,
    /// For how long a new owner asks the previous one before the origin.
    pub grace: Duration,
    /// How long a node that is asked may take to show that it is at work, by an answer or by a
    /// sign; then the next is asked. It is longer for a node that has been slower.
    pub patience: Duration,
    /// From how many requests a second on a document has several owners.
    pub hotness: Hotness,
    /// Bytes a second of documents that are offered to other nodes: evicted ones, and when this one
    /// leaves.
    pub offer_rate: u64,
    /// Bytes of memory for what is known of the others' memories, and as many for what is known of
    /// documents.
    pub hints_memory: usize,
    /// Promise of a purge, and how long nodes trust their copies without news.
    pub purges: Config,
    /// How long a node that was told of others, and can reach none, waits for them before it goes
    /// on alone. Default 60 s.
    pub alone_after: Duration,
}

impl NodeOptions {
    /// Makes options with defaults.
    pub fn new(own: Member, seed: FleetSeed, classes: ClassTable) -> NodeOptions {
        NodeOptions {
            own,
            seed,
            classes,
            tls: None,
            bound: LoadBound::new(50).ok(),
            grace: Duration::from_secs(3600),
            patience: Duration::from_millis(500),
            hotness: Hotness { per_owner: NonZeroU32::MIN, owners_max: NonZeroU32::MIN },
            offer_rate: 16 << 20,
            hints_memory: 1 << 20,
            purges: Config { consistency: Consistency::Bounded, patience: Patience::default() },
            alone_after: Duration::from_secs(60),
        }
    }
}

/// This node of a fleet.
pub struct Node {
    options: NodeOptions,
    tls: Option<Tls>,
    limits: UpstreamLimits,
    clock: TokioClock,
    roster: ArcSwap<Roster>,
    classes: ArcSwap<ClassTable>,
    breakers: Breakers<MemberId>,
    /// Breakers of origins, by their numbers in the table of outages.
    origins: Breakers<u64>,
    /// When each origin was last reached, in milliseconds. Origins in the same slot count as one.
    reached: [AtomicU64; SLOTS],
    /// Questions and requests under way.
    load: AtomicU64,
    /// There is no cache in this process.
    without_cache: AtomicBool,
    own: ArcSwap<Member>,
    demand: Demand,
    hints: Mutex<Hints>,
    documents: Mutex<DocumentMemory>,
    popularity: Mutex<RequestCounts>,
    pub(crate) offering: Offering,
    pub(crate) copy_notices: CopyNotices,
    purges: Arc<PurgeState>,
    membership: RwLock<Option<Arc<dyn Membership>>>,
    greeted: Greeted,
    /// Nodes that others say are there, and when they said so last.
    told_of: Mutex<BTreeMap<MemberId, (Address, Duration)>>,
    /// Nodes that others count although they are lost.
    told_lost: Mutex<BTreeMap<MemberId, Address>>,
    /// Nodes that an operator has taken out of the fleet, until they are heard again.
    forgotten: Mutex<BTreeSet<MemberId>>,
    /// One view follows another.
    changing: Mutex<()>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.options.own.id)
    }
}

impl Node {
    /// Creates the node, which knows no other node yet. Names of other nodes are looked up by
    /// `lookup`.
    pub fn new(
        options: NodeOptions,
        lookup: Arc<dyn lookup::Lookup>,
        clock: TokioClock,
    ) -> Arc<Node> {
        let tls = options.tls.clone().map(|config| Tls::ready(config, TLS_NAME));
        let limits = UpstreamLimits {
            connect_timeout: PATIENCE_MAX.max(options.patience),
            // A question takes a connection, and there may be as many as requests of clients.
            idle_per_origin: IDLE_PER_NODE,
            idle_total: usize::MAX,
            head_bytes: HEAD_BYTES,
            loss_bound: Some(LOSS_BOUND),
            lookup,
            ..UpstreamLimits::default()
        };
        let seed = KeyHash::of(options.own.id.as_str().as_bytes(), options.seed).bits();
        Arc::new(Node {
            tls,
            limits,
            clock,
            roster: ArcSwap::from_pointee(Roster::empty()),
            classes: ArcSwap::from_pointee(options.classes.clone()),
            breakers: Breakers::new(seed),
            origins: Breakers::new(seed),
            reached: [const { AtomicU64::new(0) }; SLOTS],
            load: AtomicU64::new(0),
            without_cache: AtomicBool::new(false),
            own: ArcSwap::from_pointee(Member { state: State::Joining, ..options.own.clone() }),
            demand: Demand::new(options.hotness),
            hints: Mutex::new(Hints::new(options.hints_memory)),
            documents: Mutex::new(DocumentMemory::new(options.hints_memory)),
            popularity: Mutex::new(RequestCounts::new(options.hints_memory, POPULARITY_SPAN)),
            copy_notices: CopyNotices::default(),
            offering: Offering::new(options.offer_rate, clock.running()),
            purges: Arc::new(PurgeState::new(
                options.own.id.clone(),
                options.purges,
                clock.since_1970().as_nanos() as u64,
            )),
            membership: RwLock::default(),
            greeted: Greeted::default(),
            told_of: Mutex::default(),
            told_lost: Mutex::default(),
            forgotten: Mutex::default(),
            changing: Mutex::default(),
            options,
        })
    }

    /// Returns the name of this node.
    pub fn id(&self) -> &MemberId {
        &self.options.own.id
    }

    /// Returns the protocols that this node understands.
    pub(crate) fn protocols(&self) -> Protocols {
        self.options.own.protocols
    }

    /// Returns what is spoken with a member, if there is something.
    pub(crate) fn protocol_with(&self, member: &Member) -> Option<u16> {
        self.protocols().common(member.protocols)
    }

    /// Puts another view of the members in force: those with which there is a protocol in common.
    pub fn set_members(&self, members: Members) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, grace) = (self.now(), self.options.grace);
        let (own, tls) = (self.protocols(), self.tls.as_ref());
        let started = self.membership().map(|source| source.started()).unwrap_or_default();
        let times = (now, self.clock.since_1970());
        let before = self.roster.load();
        let next = before.followed_by(&members, (own, tls), &started, times, grace);
        self.breakers.retain(|id| next.members.get(id).is_some());
        let before = self.members();
        let gone = before.iter().filter(|member| next.members.get(&member.id).is_none());
        gone.for_each(|member| self.hints().forget_member(&member.id));
        for leaving in next.members.iter().filter(|member| member.state == State::Leaving) {
            let was = before.get(&leaving.id).map(|member| member.state);
            if was != Some(State::Leaving) {
                self.greeted.left(&leaving.id);
            }
        }
        self.roster.store(Arc::new(next));
        self.refresh_view();
    }

    /// Returns the members as they are known now.
    pub fn members(&self) -> Members {
        self.roster.load().members.clone()
    }

    /// Returns the classes in force.
    pub fn classes(&self) -> Arc<ClassTable> {
        self.classes.load_full()
    }

    /// Puts other classes in force for requests from now on.
    pub fn set_classes(&self, classes: ClassTable) {
        self.classes.store(Arc::new(classes));
    }

    /// Notes that there is no cache in this process: this node owns nothing.
    pub(crate) fn set_without_cache(&self) {
        self.without_cache.store(true, Ordering::Release);
        self.own.store(Arc::new(Member { weight: 0, has_cache: false, ..self.own() }));
    }

    /// Notes how many of this node's disks are given up, and how many stall: it owns so much less.
    /// A node whose disks all stall owns next to nothing, but its share where those of all others
    /// stall as well.
    pub(crate) fn note_disks(&self, (given_up, stalled): (usize, usize), all: usize) {
        if all == 0 {
            return;
        }
        let own = self.own();
        let left = all.saturating_sub(given_up);
        let share = u64::from(self.options.own.weight) * left.saturating_sub(stalled) as u64;
        let least = u32::from(left > 0).min(self.options.own.weight);
        let weight = (share.div_ceil(all as u64) as u32).max(least);
        let disk_failed = given_up > 0;
        if (own.weight, own.disk_failed) != (weight, disk_failed) {
            self.own.store(Arc::new(Member { weight, disk_failed, ..own }));
        }
    }

    /// Returns whether this node holds nothing, and never will while the process runs.
    pub(crate) fn is_without_cache(&self) -> bool {
        self.without_cache.load(Ordering::Acquire)
    }

    /// Returns the requests under way, of clients and of nodes.
    pub fn load(&self) -> u64 {
        self.load.load(Ordering::Relaxed)
    }

    /// Counts a request for as long as the guard lives.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.load.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// Returns the hash of a key.
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash::of(key, self.options.seed)
    }

    /// Returns whether there are classes for which memories of other nodes are asked by hints.
    pub(crate) fn cooperates(&self) -> bool {
        self.classes.load().iter().any(|class| class.policy.lookup.has(LookupStep::Peers))
    }

    /// Returns whether there are classes whose copies are offered when they leave memory.
    pub(crate) fn offers_evicted(&self) -> bool {
        self.classes.load().iter().any(|class| class.policy.eviction.offers())
    }

    /// Returns what is done with a document with these facts, as of now.
    pub(crate) fn policy(&self, facts: &DocumentFacts<'_>) -> Policy {
        self.classes.load().classify(facts).policy
    }

    /// Returns the class of a document with these facts, as of now.
    pub(crate) fn class(&self, facts: &DocumentFacts<'_>) -> Class {
        self.classes.load().classify(facts).clone()
    }

    /// Returns whether the class of a document may depend on its size or type.
    pub(crate) fn depends_on_answers(&self) -> bool {
        self.classes.load().depends_on_answers()
    }

    /// Returns the class of the document of a key at `host` by what this node remembers of it.
    pub(crate) fn known_class(&self, key: KeyHash, host: &str) -> Class {
        self.with_known(key, host, |facts| self.class(facts))
    }

    /// Calls `take` with what this node remembers of the document of a key at `host`.
    pub(crate) fn with_known<T>(
        &self,
        key: KeyHash,
        host: &str,
        take: impl FnOnce(&DocumentFacts<'_>) -> T,
    ) -> T {
        if !self.depends_on_answers() {
            return take(&self.facts(key, None, None, host));
        }
        let documents = self.documents();
        let Remembered { size, content_type } = documents.get(key).unwrap_or_default();
        take(&self.facts(key, size, content_type, host))
    }

    /// Returns what decides the class of a document of this size and type, with its popularity here
    /// if that matters.
    pub(crate) fn facts<'a>(
        &self,
        key: KeyHash,
        size: Option<u64>,
        content_type: Option<&'a str>,
        host: &'a str,
    ) -> DocumentFacts<'a> {
        let requests = match self.depends_on_requests() {
            true => {
                let recent = self.popularity().get(key, self.now());
                recent.running + recent.before
            }
            false => 0,
        };
        DocumentFacts { size, content_type, host, requests }
    }

    /// Returns whether the class of a document may depend on how often it was requested lately.
    pub(crate) fn depends_on_requests(&self) -> bool {
        self.classes.load().depends_on_requests()
    }

    /// Counts a request, or a question of another node, for the popularity of the document of a
    /// key.
    pub(crate) fn note_request(&self, key: &[u8]) {
        if self.depends_on_requests() {
            self.popularity().note(self.hash(key), self.now());
        }
    }

    fn popularity(&self) -> MutexGuard<'_, RequestCounts> {
        self.popularity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the size and type of a document, if its class may depend on them.
    pub(crate) fn note_document(&self, key: KeyHash, size: Option<u64>, kind: Option<&str>) {
        if self.depends_on_answers() {
            self.documents().note(key, size, kind);
        }
    }

    fn documents(&self) -> MutexGuard<'_, DocumentMemory> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans a look-up; `None` when the question has travelled too far, or this node is alone.
    pub(crate) fn plan(&self, request: &Request, policy: &Policy) -> Option<LookupPlan> {
        let roster = self.roster.load();
        let is_alone = roster.members.iter().all(|member| member.id == self.options.own.id);
        if is_alone && request.asked == Asked::ByClient {
            return None;
        }
        let avoid = self.breakers.open(self.now());
        let hinted = match policy.lookup.has(LookupStep::Peers) {
            true => self.holders(request.key),
            false => Vec::new(),
        };
        let previous = roster.previous(self.now());
        let view = View { previous: &previous, hinted: &hinted, ..self.view(&roster, &avoid) };
        fleet::lookup::plan(request, policy, &view).ok()
    }

    /// Returns which members are asked to fetch if this node cannot connect to the origin.
    pub(crate) fn substitutes(&self, request: &Request, plan: &LookupPlan) -> Vec<Ask> {
        let (roster, avoid) = (self.roster.load(), self.breakers.open(self.now()));
        fleet::lookup::substitutes(request, plan, &self.view(&roster, &avoid))
    }

    fn view<'a>(&'a self, roster: &'a Roster, avoid: &'a BTreeSet<MemberId>) -> View<'a> {
        View {
            me: &self.options.own.id,
            members: &roster.members,
            previous: &[],
            hinted: &[],
            avoid,
            bound: self.options.bound,
        }
    }

    /// Notes a request for a document, and returns how many owners it has by now.
    pub(crate) fn note_demand(&self, key: KeyHash) -> usize {
        self.demand.note(key, self.now())
    }

    /// Notes a question for a document, and returns how many owners it has by what was asked here.
    pub(crate) fn note_asked(&self, key: KeyHash) -> u32 {
        self.demand.note_own(key, self.now())
    }

    /// Returns how many owners a document has by now.
    pub(crate) fn hot_owners(&self, key: KeyHash) -> usize {
        self.demand.owners(key, self.now())
    }

    /// Notes how many owners a document has, as one of them says.
    pub(crate) fn note_told_owners(&self, key: KeyHash, owners: u32) {
        self.demand.note_told(key, owners, self.now());
    }

    /// Returns who may have a document in memory.
    pub(crate) fn holders(&self, key: KeyHash) -> Vec<MemberId> {
        self.hints().holders(key).cloned().collect()
    }

    /// Notes that a member has a document in memory.
    pub(crate) fn note_holder(&self, key: KeyHash, member: &MemberId) {
        self.hints().note(key, member);
    }

    /// Notes that a member does not have it.
    pub(crate) fn forget_holder(&self, key: KeyHash, member: &MemberId) {
        self.hints().forget(key, member);
    }

    /// Records that a copy of this document entered this node's memory; its owner will be told.
    pub(crate) fn note_entered(&self, key: KeyHash, size: Option<u64>, kind: Option<&str>) {
        self.note_document(key, size, kind);
        let document = NoticedDocument { size, content_type: kind.map(Into::into) };
        self.copy_notices.add(CopyNotice { key, entered: Some(document) });
    }

    /// Records that a document of a class with `policy` is not in this node's memory, where its
    /// owner may expect it; the owner will be told.
    pub(crate) fn note_left(&self, key: KeyHash, policy: &Policy) {
        if policy.lookup.has(LookupStep::Peers) && policy.copies.at_reader() {
            self.copy_notices.add(CopyNotice { key, entered: None });
        }
    }

    fn hints(&self) -> MutexGuard<'_, Hints> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the owners of a key, as many as are wanted and there are, as of now.
    pub(crate) fn owners(&self, key: KeyHash, wanted: usize) -> Vec<MemberId> {
        let (roster, avoid) = (self.roster.load(), self.breakers.open(self.now()));
        let usable = |member: &Member| member.id == *self.id() || !avoid.contains(&member.id);
        let bound = self.options.bound;
        let owners = placement::owners(key, &roster.members, wanted, bound, usable);
        owners.into_iter().map(|owner| owner.id.clone()).collect()
    }

    /// Returns where a member is asked, if it may be asked now. The end of the question must be
    /// told.
    pub(crate) fn permit(&self, member: &MemberId) -> Option<(Arc<Peer>, Permit)> {
        let peer = self.roster.load().peer(member)?.clone();
        match self.breakers.permit(member, self.now()) {
            Permit::No => None,
            permit => Some((peer, permit)),
        }
    }

    /// Notes that a question was answered.
    pub(crate) fn succeeded(&self, member: &MemberId, permit: Permit) {
        self.breakers.succeeded(member, permit);
    }

    /// Notes that a question failed.
    pub(crate) fn failed(&self, member: &MemberId, permit: Permit) {
        self.breakers.failed(member, permit, self.now());
    }

    /// Returns whether a request may be sent to an origin. The end of it must be told.
    pub(crate) fn permit_origin(&self, origin: u64) -> Permit {
        self.origins.permit(&origin, self.now())
    }

    /// Notes whether a request with `permit` had a connection to its origin.
    pub(crate) fn note_origin(&self, origin: u64, permit: Permit, had_connection: bool) {
        match had_connection {
            true => {
                self.origins.succeeded(&origin, permit);
                self.note_reached(origin);
            }
            false => self.origins.failed(&origin, permit, self.now()),
        }
    }

    /// Notes that there is a connection to an origin now.
    pub(crate) fn note_reached(&self, origin: u64) {
        self.reached_slot(origin).store(self.now().as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns whether an origin was reached after `since`.
    pub(crate) fn reached_since(&self, origin: u64, since: Duration) -> bool {
        u128::from(self.reached_slot(origin).load(Ordering::Relaxed)) > since.as_millis()
    }

    fn reached_slot(&self, origin: u64) -> &AtomicU64 {
        &self.reached[origin as usize % SLOTS]
    }

    /// Returns what came of the questions to a member.
    pub(crate) fn tally(&self, member: &MemberId) -> Tally {
        self.roster.load().peer(member).map(|peer| peer.tally.clone()).unwrap_or_default()
    }

    /// Returns the members that are not asked at present.
    pub(crate) fn avoided(&self) -> BTreeSet<MemberId> {
        self.breakers.open(self.now())
    }

    /// Returns the limits of connections to other nodes.
    pub(crate) fn limits(&self) -> &UpstreamLimits {
        &self.limits
    }

    /// Returns how long a node that is asked may take at least to show that it is at work.
    pub(crate) fn patience(&self) -> Duration {
        self.options.patience
    }

    /// Returns the purges that are in effect and durable here.
    pub fn purge_vector(&self) -> Vector {
        self.purges.told().durable.clone()
    }

    /// Returns the age of what this node knows of each other node's purges.
    pub fn purge_ages(&self) -> BTreeMap<MemberId, Option<Duration>> {
        self.purges.ages(self.now())
    }

    /// Returns what this node knows of the purges of others.
    pub fn purge_knowledge(&self) -> fleet::purges::State {
        self.purges.state(self.now())
    }

    /// Returns which purges this node has, and how far it may use its copies.
    pub(crate) fn purges(&self) -> &Arc<PurgeState> {
        &self.purges
    }

    /// Sets the source of the members, or `None` when there is none any more.
    pub(crate) fn set_membership(&self, membership: Option<Arc<dyn Membership>>) {
        *self.membership.write().unwrap_or_else(PoisonError::into_inner) = membership;
    }

    fn membership(&self) -> Option<Arc<dyn Membership>> {
        self.membership.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a node that says something, in a process with this number at a moment of its own
    /// clock, unless it has said something later: that it leaves.
    pub(crate) fn greet(&self, member: Member, (process, said): (u64, u64)) -> Heard {
        let heard = self.purges.note_process(&member.id, process, said);
        if heard.is_latest {
            self.greeted(member);
        }
        heard
    }

    fn greeted(&self, of: Member) {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner).remove(&of.id);
        self.told_lost.lock().unwrap_or_else(PoisonError::into_inner).remove(&of.id);
        self.greeted.note(&of, self.now());
        self.heard(of);
        // A node that leaves is asked nothing more.
        let latest = self.latest_members();
        if latest.version() > self.members().version() {
            self.set_members(latest);
        }
        self.refresh_view();
    }

    /// Notes that a member answered or asked, and what it said of itself.
    pub(crate) fn heard(&self, of: Member) {
        if let Some(membership) = self.membership() {
            membership.heard(of, self.now());
        }
    }

    /// Notes that a member did not answer.
    pub(crate) fn silent(&self, id: &MemberId) {
        if let Some(membership) = self.membership() {
            membership.silent(id, self.now());
        }
    }

    /// Returns the members as their source knows them now: a purge must reach those, too, that the
    /// roster does not have yet.
    fn latest_members(&self) -> Members {
        self.membership().map_or_else(|| self.members(), |membership| membership.members())
    }

    /// Returns the other nodes that count for purges: all that are known and keep copies, except
    /// those that left in order or were forgotten.
    pub(crate) fn counted(&self) -> BTreeMap<MemberId, Counted> {
        let mut all = BTreeMap::new();
        let mut add = |id: &MemberId, address: &Address, is_lost| {
            let counted = Counted { id: id.clone(), address: address.clone(), is_lost };
            all.entry(id.clone()).or_insert(counted);
        };
        let members = self.latest_members();
        let leaves =
            |id: &MemberId| members.get(id).is_some_and(|member| member.state == State::Leaving);
        // One that joins trusts nothing before it has said hello.
        let serves = |member: &&Member| member.has_cache && member.state == State::Serving;
        members.iter().filter(serves).for_each(|member| add(&member.id, &member.address, false));
        let greeted = self.greeted.all(self.now());
        greeted.iter().for_each(|(id, address)| add(id, address, false));
        let lost = self.membership().map(|membership| membership.lost()).unwrap_or_default();
        let now = self.now();
        let has_just_left = |id: &MemberId| {
            let left = |lost: &Lost| lost.member.id == *id && lost.member.state == State::Leaving;
            let mut left = lost.iter().filter(|lost| left(lost));
            left.any(|lost| now.saturating_sub(lost.since) < COMES_BACK) || leaves(id)
        };
        let told_of = self.told_of.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = |at: &Duration| now.saturating_sub(*at) < TOLD_OF;
        for (id, (address, _)) in
            told_of.iter().filter(|(id, (_, at))| recent(at) && !has_just_left(id))
        {
            add(id, address, false);
        }
        let forgotten = self.forgotten.lock().unwrap_or_else(PoisonError::into_inner);
        let is_strict = self.consistency() == Consistency::Strict;
        let counts = |member: &Member| {
            let has_joined = member.state == State::Serving;
            member.has_cache && (has_joined || is_strict && member.state == State::Joining)
        };
        for Lost { member, .. } in lost.iter().filter(|lost| counts(&lost.member)) {
            if !forgotten.contains(&member.id) {
                add(&member.id, &member.address, true);
            }
        }
        let told_lost = self.told_lost.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, address) in told_lost.iter().filter(|(id, _)| !forgotten.contains(*id)) {
            // What is known here of one that left in order counts.
            if !lost.iter().any(|lost| lost.member.id == *id) && members.get(id).is_none() {
                add(id, address, true);
            }
        }
        all.remove(self.id());
        all
    }

    /// Notes that another node counts this one although it is lost. A node that has been started
    /// again knows of it from others alone.
    pub(crate) fn told_lost(&self, id: MemberId, address: Address) {
        let mut told_lost = self.told_lost.lock().unwrap_or_else(PoisonError::into_inner);
        if told_lost.len() < MEMBERS_MAX {
            told_lost.insert(id, address);
        }
    }

    /// Notes that another node counts this one.
    pub(crate) fn told_of(&self, id: MemberId, address: Address) {
        let mut told_of = self.told_of.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        told_of.retain(|_, (_, at)| now.saturating_sub(*at) < TOLD_OF);
        if told_of.len() < MEMBERS_MAX {
            told_of.insert(id, (address, now));
        }
    }

    /// Brings the nodes that count for purges up to date.
    pub(crate) fn refresh_view(&self) {
        if !self.is_without_cache() {
            self.purges.set_view(self.counted().into_keys().collect(), self.now());
        }
    }

    /// Returns the nodes that count and that a purge does not wait for: they are lost and do not
    /// answer, or have not answered for a while.
    pub(crate) fn gone(&self) -> BTreeSet<MemberId> {
        let failing = self.purges.failures(self.now());
        let is_gone = |counted: &Counted| {
            let failing = failing.get(&counted.id).map(|(since, _)| *since);
            failing.is_some_and(|since| counted.is_lost || since >= FAILING)
        };
        let counted = self.counted().into_values().filter(|counted| is_gone(counted));
        counted.map(|counted| counted.id).collect()
    }

    /// Takes a node that is lost, or does not answer, out of those that count for purges. Returns
    /// whether it was.
    pub(crate) fn forget(&self, id: &MemberId) -> bool {
        let is_lost = self.lost().contains_key(id.as_str())
            || self.counted().get(id).is_some_and(|counted| counted.is_lost)
            || self.gone().contains(id);
        if is_lost {
            self.forgotten.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
            self.told_of.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
            self.greeted.left(id);
            self.refresh_view();
        }
        is_lost
    }

    /// Returns the members with which there is no protocol in common, and why: they neither ask nor
    /// are asked, and hear of no purge that is made here.
    pub fn not_understood(&self) -> BTreeMap<String, String> {
        let members = self.membership().map(|membership| membership.members());
        let others = members.iter().flat_map(Members::iter);
        let others = others.filter(|member| self.protocol_with(member).is_none());
        others.map(|member| (member.id.to_string(), self.why_not_understood(member))).collect()
    }

    /// Returns what is spoken with a node that is told of a purge.
    ///
    /// # Errors
    /// There is no protocol in common; says so. Of one that only others know it is not known.
    pub(crate) fn protocol_of(&self, id: &MemberId) -> Result<u16, String> {
        let members = self.latest_members();
        let Some(member) = members.get(id) else { return Ok(self.protocols().newest()) };
        self.protocol_with(member).ok_or_else(|| self.why_not_understood(member))
    }

    /// Says why nothing is spoken with a member.
    pub(crate) fn why_not_understood(&self, member: &Member) -> String {
        let own = self.protocols();
        format!("it speaks protocol {}, and this node {own}", member.protocols)
    }

    /// Says where the member is that has this node's name, if there is one.
    pub(crate) fn name_in_use(&self) -> Option<String> {
        let at = self.membership()?.name_in_use()?;
        Some(format!("the node at {at} is named {}, too, and started first", self.id()))
    }

    /// Returns the members that were known and are lost, those that left in order apart, and since
    /// when.
    pub fn lost(&self) -> BTreeMap<String, String> {
        self.away(|state| state != State::Leaving, "it was lost")
    }

    /// Returns the members that were known and have left in order, and since when.
    pub fn left(&self) -> BTreeMap<String, String> {
        self.away(|state| state == State::Leaving, "it left")
    }

    fn away(&self, so: impl Fn(State) -> bool, how: &str) -> BTreeMap<String, String> {
        let gone = self.membership().map(|membership| membership.lost()).unwrap_or_default();
        let forgotten = self.forgotten.lock().unwrap_or_else(PoisonError::into_inner);
        let is_meant = |lost: &&Lost| so(lost.member.state) && !forgotten.contains(&lost.member.id);
        let gone = gone.iter().filter(is_meant);
        let since =
            |since: Duration| format!("{how} {} s ago", self.now().saturating_sub(since).as_secs());
        gone.map(|lost| (lost.member.id.to_string(), since(lost.since))).collect()
    }

    /// Returns how many bytes a second are offered to other nodes.
    pub(crate) fn offer_rate(&self) -> u64 {
        self.options.offer_rate
    }

    /// Returns what a purge promises.
    pub(crate) fn consistency(&self) -> Consistency {
        self.options.purges.consistency
    }

    /// Returns how long clients of purges wait.
    pub(crate) fn patience_of_purges(&self) -> Patience {
        self.options.purges.patience
    }

    /// Returns how long it waits for others before it goes on alone.
    pub(crate) fn alone_after(&self) -> Duration {
        self.options.alone_after
    }

    /// Returns what this node says of itself now.
    pub fn own(&self) -> Member {
        (**self.own.load()).clone()
    }

    /// Returns whether it leaves others behind, which have been told where its log of purges ends.
    pub(crate) fn leaves_others(&self) -> bool {
        self.own.load().state == State::Leaving && self.members().len() > 1
    }

    /// Says that it takes part so from now on.
    pub(crate) fn set_state(&self, state: State) {
        self.own.store(Arc::new(Member { state, ..self.own() }));
    }

    /// Brings what it says of itself up to date.
    pub(crate) fn refresh_own(&self) -> Member {
        let own = Member {
            load: self.load(),
            policy_version: self.classes.load().version(),
            ..self.own()
        };
        self.own.store(Arc::new(own.clone()));
        own
    }

    /// Returns the server at a member's address.
    pub(crate) fn endpoint(&self, address: &Address) -> Arc<Endpoint> {
        Arc::new(endpoint(address, self.tls.as_ref()))
    }

    /// Returns the monotonic time, as all that is known of the fleet is dated.
    pub(crate) fn now(&self) -> Duration {
        self.clock.running()
    }
}

/// Another node that counts for purges.
pub(crate) struct Counted {
    pub id: MemberId,
    pub address: Address,
    pub is_lost: bool,
}

/// A request under way.
pub(crate) struct Busy(Arc<Node>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.load.fetch_sub(1, Ordering::Relaxed);
    }
}
