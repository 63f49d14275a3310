//! What the admin interface shows and steers, on the first worker.

use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use semantics::Url;
use tokio::task::spawn_local;

use crate::admin::{Admin, Backend, Guard, Purge, Purged, Readiness};
use crate::cache::{Store, primary_key};
use crate::control::Control;
use crate::metrics::Metrics;
use crate::options::Front;

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
        Box::pin(async move {
            let Some(store) = &self.store else {
                return Purged::NotOurs("there is no cache".to_owned());
            };
            let options = self.control.options();
            // The object is gone however it is asked for: over TLS or not.
            let of_scheme = |scheme: &str| {
                Url::from_uri(purge.url())
                    .and_then(|url| Url::new(scheme, url.authority(), url.path_and_query()))
            };
            let urls: Result<Vec<Url>, _> = ["http", "https"].into_iter().map(of_scheme).collect();
            let urls = match urls {
                Ok(urls) => urls,
                Err(error) => return Purged::NotOurs(error.to_string()),
            };
            let fronts: Vec<Option<&str>> = match &options.front {
                Front::Forward => vec![None],
                Front::Reverse(sites) => sites.iter().map(|site| Some(&*site.name)).collect(),
            };
            let mut removed = Vec::new();
            for front in fronts {
                let mut found = false;
                for url in &urls {
                    let Some(key) = primary_key(front, url) else {
                        let text = "the URL is longer than any that is stored";
                        return Purged::NotOurs(text.to_owned());
                    };
                    match store.purge(&key).await {
                        Ok(there) => found |= there,
                        Err(refusal) => return Purged::NotDurable(refusal.to_string()),
                    }
                }
                if found {
                    removed.push(front.unwrap_or("forward").to_owned());
                }
            }
            if removed.is_empty() { Purged::Nothing } else { Purged::Removed(removed) }
        })
    }
}
