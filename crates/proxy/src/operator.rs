//! What the admin interface shows and steers, on the first worker.

use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use tokio::task::spawn_local;

use crate::admin::{Admin, Backend, Guard, Purge, Purged, Readiness};
use crate::cache::Store;
use crate::control::Control;
use crate::metrics::Metrics;
use crate::purger;

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
    store: Option<Store>,
    control: Control,
    metrics: Arc<Metrics>,
}

impl Operator {
    /// Serves the admin interface until the runtime ends: it tells of the drain, too.
    pub fn start(setup: AdminSetup, store: Option<Store>, control: Control) -> io::Result<()> {
        let AdminSetup { listener, guard, metrics } = setup;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let admin = Rc::new(Admin::new(guard, Operator { store, control, metrics }));
        spawn_local(admin.serve(listener, std::future::pending()));
        Ok(())
    }
}

impl Backend for Operator {
    fn readiness(&self) -> Readiness {
        if self.control.draining() {
            return Readiness::Draining;
        }
        match &self.store {
            Some(store) if !store.share().recovered() => {
                Readiness::Recovering("the index is not complete yet".to_owned())
            }
            _ => Readiness::Ready,
        }
    }

    fn metrics(&self) -> String {
        self.metrics.scrape()
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> Pin<Box<dyn Future<Output = Purged> + 'a>> {
        Box::pin(
            async move { purger::purge(self.store.as_ref(), &self.control.options(), purge).await },
        )
    }
}
