//! State that requests use: [`Services`] per worker, [`Shared`] per process.

use std::cell::{Ref, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::purges::{Consistency, Trust};
use http1::RequestHead;
use net::clock::TokioClock;
use semantics::Seconds;
use semantics::reuse::AgeLimit;
use store::{FetchToken, Key, Refusal};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use upstream::message::pseudonym::Pseudonym;
use upstream::message::via::Via;
use upstream::send::client::Upstream;

use crate::client::password_checks::PasswordChecks;
use crate::client::pool::Pool;
use crate::client::tunnel_permits::TunnelPermits;
use crate::fill::detached::Detached;
use crate::fill::fill_budget::FillBudget;
use crate::fill::neighbour_budget::Neighbours;
use crate::fill::registry::{BegunCount, EndedCount, FillRegistry};
use crate::object::buffers::Buffers;
use crate::object::deferred_invalidations::DeferredInvalidations;
use crate::object::purge_labels::ObjectLabels;
use crate::object::store::Store;
use crate::object::store_lease::Leases;
use crate::object::variants::Variants;
use crate::observe::cache_status::HitStatus;
use crate::observe::log_fields::LogFields;
use crate::observe::observer::Observer;
use crate::options::Options;
use crate::origin::outages::Outages;
use crate::peers::node::Node;
use crate::peers::purge_stream::PurgeStream;

/// Most bodies that are compressed at the same time. An encoder takes up to 2 MiB.
const ENCODERS_MAX: usize = 64;

/// The state that the requests of all workers share.
pub(crate) struct Shared {
    pub observer: Arc<dyn Observer>,
    pub via: Via,
    pub pseudonym: Pseudonym,
    pub hit_status: HitStatus,
    pub fills: FillRegistry,
    /// The known origin failures.
    pub outages: Outages,
    pub neighbours: Neighbours,
    pub variants: Variants,
    pub missed: DeferredInvalidations,
    pub labels: Arc<ObjectLabels>,
    pub fill_budget: Arc<FillBudget>,
    /// The memory of bodies that wait for slow clients.
    pub buffers: Arc<Buffers>,
    pub tunnels: Arc<TunnelPermits>,
    /// Checks of passwords that rules ask for.
    pub passwords: PasswordChecks,
    /// Permits of running encoders.
    pub encoders: Arc<Semaphore>,
    /// This node, if it belongs to a fleet.
    pub node: Option<Arc<Node>>,
    /// The stream of purges that several sites share, if there is one.
    pub stream: Option<Arc<PurgeStream>>,
}

impl Shared {
    /// Creates the shared state from the first options. `fill_budget` is the memory for the windows
    /// of fills, in bytes.
    pub fn new(
        options: &Options,
        clock: TokioClock,
        observer: Arc<dyn Observer>,
        fill_budget: u64,
        (node, stream): (Option<Arc<Node>>, Option<Arc<PurgeStream>>),
    ) -> Shared {
        Shared {
            observer,
            via: Via::new(&options.pseudonym),
            hit_status: HitStatus::new(options.pseudonym.as_str()),
            pseudonym: options.pseudonym.clone(),
            fills: FillRegistry::new(),
            outages: Outages::new(),
            neighbours: Neighbours::default(),
            variants: Variants::default(),
            missed: DeferredInvalidations::new(),
            labels: Arc::new(ObjectLabels { tags: options.purging.tags.clone() }),
            fill_budget: Arc::new(FillBudget::new(fill_budget, clock)),
            buffers: Arc::default(),
            tunnels: Arc::new(TunnelPermits::new(clock)),
            passwords: PasswordChecks::default(),
            encoders: Arc::new(Semaphore::new(ENCODERS_MAX)),
            node,
            stream,
        }
    }
}

/// Start of a lookup, as the number of fills that had ended.
pub(crate) type LookupStart = EndedCount;

/// Arrival of a request, as the number of fills that had begun.
pub(crate) type Arrival = BegunCount;

/// The state that the requests of one worker use.
pub(crate) struct Services {
    pub shared: Arc<Shared>,
    pub clock: TokioClock,
    pub observer: Arc<dyn Observer>,
    pub upstream: Rc<Upstream>,
    /// Sites whose neighbours this worker is validating.
    pub validated_sites: RefCell<HashSet<u64>>,
    /// The tasks and bodies that need the store.
    pub leases: Rc<Leases>,
    /// Fetches of the worker that no request drives.
    pub detached: Detached,
    /// Held by each request that continues after its client cancelled it.
    pub run_on: Rc<()>,
    pub heads: Pool<RequestHead>,
    /// Pool of access log texts.
    pub log_fields: Pool<LogFields>,
    /// `None` while the store is awaited, `Some(None)` when there is none.
    store: RefCell<Option<Option<Store>>>,
    options: RefCell<Arc<Options>>,
}

impl Services {
    pub fn new(
        shared: Arc<Shared>,
        clock: TokioClock,
        upstream: Upstream,
        options: Arc<Options>,
    ) -> Rc<Services> {
        Rc::new(Services {
            clock,
            observer: shared.observer.clone(),
            shared,
            upstream: Rc::new(upstream),
            validated_sites: RefCell::default(),
            leases: Rc::default(),
            detached: Detached::default(),
            run_on: Rc::default(),
            heads: Pool::default(),
            log_fields: Pool::default(),
            store: RefCell::default(),
            options: RefCell::new(options),
        })
    }

    pub fn options(&self) -> Arc<Options> {
        self.options.borrow().clone()
    }

    /// Borrows the options in force. The borrow must not be held across an await.
    pub fn borrow_options(&self) -> Ref<'_, Options> {
        Ref::map(self.options.borrow(), |options| &**options)
    }

    pub fn set_options(&self, options: Arc<Options>) {
        *self.options.borrow_mut() = options;
    }

    /// Returns the store, if there is one.
    pub fn store(&self) -> Option<Store> {
        self.store.borrow().clone().flatten()
    }

    /// Returns up to which age stored responses may be used without asking their origin: a node
    /// that knows too little of the purges made elsewhere must not use older ones.
    pub fn age_limit(&self) -> Option<AgeLimit> {
        let Shared { node, stream, .. } = &*self.shared;
        let of_node = node.as_ref().map(|node| node.purges().trust(node.now()));
        let of_stream = stream.as_ref().map(|stream| stream.trust(self.clock.running()));
        let limits = [of_node, of_stream].into_iter().flatten().filter_map(|trust| match trust {
            Trust::Full => None,
            Trust::For(time) => Some(time),
        });
        let time = limits.min()?;
        let is_bounded =
            node.as_ref().is_none_or(|node| node.consistency() == Consistency::Bounded);
        let stale_if_error = is_bounded && !time.is_zero();
        Some(AgeLimit { age: Seconds::new(time.as_secs()), stale_if_error })
    }

    /// Returns whether the store is still awaited.
    pub fn awaits_store(&self) -> bool {
        self.store.borrow().is_none()
    }

    /// Returns whether there is no store and never was: none is awaited, and none has been handed
    /// over to another process.
    pub fn is_without_store(&self) -> bool {
        matches!(*self.store.borrow(), Some(None)) && !self.leases.is_released()
    }

    /// Sets the store, or `None` when there is none.
    pub fn set_store(&self, store: Option<Store>) {
        *self.store.borrow_mut() = Some(store);
    }

    /// Returns the moment for a lookup that begins now.
    pub fn lookup_start(&self) -> LookupStart {
        self.shared.fills.ended_count()
    }

    /// Returns the moment for a request that arrives now.
    pub fn arrival(&self) -> Arrival {
        self.shared.fills.begun_count()
    }

    /// Removes everything stored under these keys, durably: now, or once the store is open, and in
    /// memory only until then. `fetch` is the token of the fetch whose response invalidates them;
    /// these removals do not overtake it. Returns whether nothing is left to become durable. If the
    /// device does not write in time, the removal becomes durable later, and the client still gets
    /// the response to its unsafe request, because the origin has carried it out.
    pub async fn forget(&self, mut keys: Vec<Key>, fetch: Option<&mut FetchToken>) -> bool {
        loop {
            if let Some(store) = self.store() {
                let done = store.invalidate(&keys, fetch).await;
                if let Err(refusal) = &done {
                    log::debug!("an invalidation is not durable yet: {refusal}");
                }
                return matches!(done, Ok(()) | Err(Refusal::Offline));
            }
            if !self.awaits_store() {
                return true;
            }
            keys = match self.shared.missed.remember(keys) {
                Ok(()) => return true,
                Err(keys) => keys,
            };
            // The store is about to open, or no more keys can be remembered.
            sleep(Duration::from_millis(2)).await;
        }
    }
}
