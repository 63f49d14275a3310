//! The backend of the admin interface, on the first worker.

use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::{io, thread};

use net::network::ListenSocket;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_local};

use crate::admin::guard::Guard;
use crate::admin::interface::{Action, Admin, Backend, Done, Explained, Readiness};
use crate::admin::{process_status, server_status};
use crate::client::reclaimer::{ConnectionReclaimer, Group};
use crate::exchange::explain::Question;
use crate::exchange::{explain, purge};
use crate::fleet_control::classes;
use crate::fleet_control::forgetting;
use crate::fleet_control::purging::Wait;
use crate::observe::metrics::{Format, Metrics};
use crate::options::control::Control;
use crate::peers::status;
use crate::request::purge_order::{Purge, PurgeResult};
use crate::services::Services;

/// A function that carries out an action on the process; see [`crate::admin::interface::Done`].
/// Called on a thread of its own.
pub type Act = Arc<dyn Fn(Action) -> Result<serde_json::Value, String> + Send + Sync>;

/// A function that returns an object with facts about the process, for `/status`.
pub type Facts = Arc<dyn Fn() -> serde_json::Value + Send + Sync>;

/// Configuration of the admin interface of a running proxy.
pub struct AdminSetup {
    /// The listening socket.
    pub listener: ListenSocket,
    /// Check that admits or refuses a request.
    pub guard: Guard,
    /// The metrics for `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Runs for `/reload`, `/upgrade`, `/drain` and `/stop`.
    pub act: Act,
    /// Adds to `/status`.
    pub facts: Facts,
    /// Reports problems with the files of the caches in use, for `/readyz`.
    pub trouble: Trouble,
}

/// Returns a sentence about the current problem, or `None`. Must not block.
pub type Trouble = Box<dyn Fn() -> Option<String> + Send>;

/// The admin backend of a running proxy.
pub(crate) struct ProxyBackend {
    services: Rc<Services>,
    reclaimer: Arc<ConnectionReclaimer>,
    control: Control,
    metrics: Arc<Metrics>,
    act: Act,
    facts: Facts,
    trouble: Trouble,
}

impl ProxyBackend {
    /// Serves the admin interface until the returned task is told to end.
    pub fn start(
        setup: AdminSetup,
        services: Rc<Services>,
        reclaimer: Arc<ConnectionReclaimer>,
        control: Control,
    ) -> io::Result<AdminTask> {
        let AdminSetup { listener, guard, metrics, act, facts, trouble } = setup;
        listener.set_nonblocking()?;
        let listener = listener.into_tokio()?;
        let clock = services.clock;
        let operator = ProxyBackend { services, reclaimer, control, metrics, act, facts, trouble };
        let admin = Rc::new(Admin::new(guard, operator, clock));
        let (end, told) = oneshot::channel();
        let stop = async {
            let _ended: Result<(), _> = told.await;
        };
        Ok(AdminTask { end, task: spawn_local(admin.serve(listener, stop)) })
    }
}

/// The admin interface while it is served.
pub(crate) struct AdminTask {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl AdminTask {
    /// Stops accepting. The returned task ends when the requests that have come are answered.
    pub fn end(self) -> JoinHandle<()> {
        drop(self.end);
        self.task
    }
}

impl Backend for ProxyBackend {
    fn readiness(&self) -> Readiness {
        if self.control.leaving() {
            return Readiness::Draining;
        }
        if let Some(why) = self.services.shared.node.as_ref().and_then(|node| node.name_in_use()) {
            return Readiness::Excluded(why);
        }
        if self.services.awaits_store() {
            return Readiness::Recovering("the previous process holds the cache".to_owned());
        }
        let configured = self.control.options().caches;
        let Some(store) = self.services.store() else {
            let text = "no cache can be used: nothing is stored";
            return match configured {
                0 => Readiness::Ready,
                _ => Readiness::Uncached(text.to_owned()),
            };
        };
        let share = store.share();
        if !share.recovered() {
            return Readiness::Recovering("the index is not complete yet".to_owned());
        }
        let (offline, opened) = share.offline();
        // Caches that were refused at startup are not counted as opened.
        let all = opened.max(configured);
        match (offline + all - opened, all) {
            (0, all) => match share.stalled() {
                0 => (self.trouble)().map_or(Readiness::Ready, Readiness::Uncached),
                stalled => {
                    let out = format!("{stalled} of {all} caches stall");
                    Readiness::Uncached(format!("{out}: they are bypassed"))
                }
            },
            (offline, all) => {
                let out = format!("{offline} of {all} caches cannot be used");
                Readiness::Uncached(format!("{out}: their share is not stored"))
            }
        }
    }

    fn metrics(&self, format: Format) -> String {
        self.metrics.scrape(format)
    }

    fn status(&self) -> serde_json::Value {
        let (options, facts) = (self.control.options(), (self.facts)());
        let figures = self.metrics.samples();
        process_status::view((&self.readiness(), facts), &options, &figures, self.services.clock)
    }

    fn act(&self, action: Action) -> Done<'_> {
        let (act, (tell, told)) = (self.act.clone(), oneshot::channel());
        let spawned = thread::Builder::new().name(action.name().to_owned()).spawn(move || {
            // The requesting client may be gone.
            let _ = tell.send(act(action));
        });
        Box::pin(async move {
            spawned.map_err(|error| error.to_string())?;
            let broken = || Err(format!("the {} broke off; see the log", action.name()));
            told.await.unwrap_or_else(|_| broken())
        })
    }

    fn explain<'a>(&'a self, question: &'a Question, client: SocketAddr) -> Explained<'a> {
        Box::pin(explain::explain(&self.services, question, client))
    }

    fn close_idle_clients(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move {
            let reclaimer = &self.reclaimer;
            let _turn = reclaimer.turn(Group::Clients).await;
            if reclaimer.close_idle(None).await == 0 {
                reclaimer.close_idle_upstreams().await;
            }
        })
    }

    fn upstreams(&self) -> serde_json::Value {
        server_status::view(&self.control.options(), self.services.clock)
    }

    fn fleet(&self) -> Option<serde_json::Value> {
        self.services.shared.node.as_deref().map(status::view)
    }

    fn fleet_policy(&self) -> Option<(u64, String)> {
        let table = self.services.shared.node.as_ref()?.classes();
        Some((table.version(), table.to_text()))
    }

    fn set_fleet_policy<'a>(&'a self, text: &'a str) -> Done<'a> {
        Box::pin(async move {
            let node = self.services.shared.node.as_ref().ok_or("this is not a node of a fleet")?;
            classes::put_in_force(&self.services, node, text).await
        })
    }

    fn forget_node<'a>(&'a self, name: &'a str) -> Done<'a> {
        Box::pin(async move {
            let node = self.services.shared.node.as_ref().ok_or("this is not a node of a fleet")?;
            forgetting::forget(&self.services, node, name).await
        })
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> Pin<Box<dyn Future<Output = PurgeResult> + 'a>> {
        Box::pin(async move {
            purge::purge(&self.services, &self.control.options(), purge, Wait::Purge).await
        })
    }
}
