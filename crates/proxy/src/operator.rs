//! What the admin interface shows and steers, on the first worker.

use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use tokio::task::spawn_local;

use crate::admin::{Admin, Backend, Explained, Guard, Purge, Purged, Readiness};
use crate::control::Control;
use crate::explain::{self, Question};
use crate::metrics::Metrics;
use crate::purger;
use crate::upstream::figures;
use crate::worker::Worker;

/// The admin interface of a proxy.
pub struct AdminSetup {
    /// Where it listens.
    pub listener: TcpListener,
    /// Whom it lets in.
    pub guard: Guard,
    /// What `/metrics` shows.
    pub metrics: Arc<Metrics>,
}

/// The backend of the admin interface.
pub(crate) struct Operator {
    worker: Rc<Worker>,
    control: Control,
    metrics: Arc<Metrics>,
}

impl Operator {
    /// Serves the admin interface until the runtime ends, for it tells of the drain, too; or until
    /// another process takes it over.
    pub fn start(setup: AdminSetup, worker: Rc<Worker>, control: Control) -> io::Result<()> {
        let AdminSetup { listener, guard, metrics } = setup;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let admin =
            Rc::new(Admin::new(guard, Operator { worker, control: control.clone(), metrics }));
        // After a hand-over the next process answers here.
        spawn_local(admin.serve(listener, async move { control.handed_over().await }));
        Ok(())
    }
}

impl Backend for Operator {
    fn readiness(&self) -> Readiness {
        if self.control.draining() {
            return Readiness::Draining;
        }
        if self.worker.awaits_store() {
            return Readiness::Recovering("the process before holds the cache".to_owned());
        }
        match &self.worker.store() {
            Some(store) if !store.share().recovered() => {
                Readiness::Recovering("the index is not complete yet".to_owned())
            }
            _ => Readiness::Ready,
        }
    }

    fn metrics(&self) -> String {
        self.metrics.scrape()
    }

    fn explain<'a>(&'a self, question: &'a Question) -> Explained<'a> {
        Box::pin(explain::explain(&self.worker, question))
    }

    fn upstreams(&self) -> serde_json::Value {
        figures::view(&self.control.options())
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> Pin<Box<dyn Future<Output = Purged> + 'a>> {
        Box::pin(async move { purger::purge(&self.worker, &self.control.options(), purge).await })
    }
}
