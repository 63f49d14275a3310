//! Several clients of one cache at the same time, each of which sends its next request when it has
//! its answer: the speed of a cache whose drive serves several requests beside each other.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use device::{Clock, Nanos};

use super::{CacheError, EngineCache, Figures, Machine, WebCache};
use workload::request::Request;

/// The clients, and what a request costs beside the drive.
#[derive(Clone, Copy, Debug)]
pub struct Clients {
    /// Number of requests in flight.
    pub count: usize,
    /// Nanoseconds of the one processor for each request.
    pub processor: Nanos,
    /// Nanoseconds until an origin server has answered.
    pub origin: Nanos,
}

/// State that the clients share.
struct Shared {
    cache: Rc<EngineCache>,
    requests: Rc<[Request]>,
    clients: Clients,
    next: Cell<usize>,
    /// When the processor is free.
    free: Cell<Nanos>,
    figures: RefCell<Figures>,
}

impl Clients {
    /// Sends all requests. Returns their outcomes, the drive's work and the time that they took;
    /// the times of single requests are not counted.
    ///
    /// # Errors
    /// The cache failed or hangs.
    pub fn run(
        self,
        machine: &Machine,
        cache: &Rc<EngineCache>,
        requests: Rc<[Request]>,
    ) -> Result<Figures, CacheError> {
        let clock = machine.clock();
        let (usage, (prefetched, hits), began) = (machine.usage(), cache.prefetched(), clock.now());
        let shared = Rc::new(Shared {
            cache: Rc::clone(cache),
            requests,
            clients: self,
            next: Cell::new(0),
            free: Cell::new(began),
            figures: RefCell::default(),
        });
        let tasks: Vec<_> = (0..self.count)
            .map(|_| clock.spawn(client(Rc::clone(&shared), clock.clone())))
            .collect();
        machine.run(async {
            for task in tasks {
                task.await?;
            }
            Ok(())
        })??;
        let mut figures = shared.figures.take();
        figures.usage = machine.usage().since(&usage);
        let (prefetched_now, hits_now) = cache.prefetched();
        figures.prefetched = prefetched_now - prefetched;
        figures.prefetch_hits = hits_now - hits;
        figures.elapsed = clock.now() - began;
        Ok(figures)
    }
}

async fn client(shared: Rc<Shared>, clock: sim::Handle) -> Result<(), CacheError> {
    loop {
        let number = shared.next.get();
        let Some(request) = shared.requests.get(number) else { return Ok(()) };
        shared.next.set(number + 1);
        let free = shared.free.get().max(clock.now()) + shared.clients.processor;
        shared.free.set(free);
        clock.sleep_until(free).await;
        let found = shared.cache.find(request).await?;
        if found.is_none_or(|(is_current, _)| !is_current) {
            clock.sleep_until(clock.now() + shared.clients.origin).await;
        }
        let outcome = shared.cache.answer_found(request, found).await?;
        shared.figures.borrow_mut().outcome(outcome, request.size);
    }
}
