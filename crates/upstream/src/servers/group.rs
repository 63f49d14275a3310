//! Servers of one site of a reverse proxy: the choice among them, and their health.
//!
//! Guarantees: a server that is out of use gets only one trial request at a time. If all servers
//! are out of use, those that fail fast are used. No server exceeds its limit of concurrent
//! requests. Backup servers get requests only if no other server can.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::{fmt, mem};

use http::{StatusCode, Uri};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::failure::error::Failure;
use crate::failure::error::Reason;
use crate::servers::balance;
use crate::servers::balance::{Balance, RoundRobinState, hash, members};
use crate::servers::health::{Blame, Fit, Health};
use crate::servers::health_check::HealthCheck;
use crate::servers::queue::Queue;
use crate::servers::status::{QueueStatus, ServerStatus};
use crate::settings::endpoint::Endpoint;
use net::clock::TokioClock;

/// Servers of one site.
#[derive(Debug)]
pub struct Group {
    name: String,
    servers: Vec<Server>,
    options: GroupOptions,
    turns: RoundRobinState,
    queue: Arc<Queue>,
    /// Permits for requests whose bodies are still being sent by their clients: half of the total
    /// capacity. `None` if a server has no limit.
    uploads: Option<Arc<Semaphore>>,
}

/// Options of a site's servers.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// How requests are distributed.
    pub balance: Balance,
    /// Failures in a row that take a server out of use; those of requests for one URL count once. 0
    /// disables this. A site's only server always stays in use. Default 3.
    pub max_fails: u32,
    /// Time for which a server is out of use before one request tries it. Default 10 s.
    pub fail_timeout: Duration,
    /// When a request is sent to another server.
    pub next: Next,
    /// Maximum number of servers that one request is sent to. Default 3.
    pub tries: u32,
    /// Active health checks; `None`: there are none.
    pub check: Option<HealthCheck>,
    /// Maximum number of requests that wait while all servers are at their limits; 0 disables
    /// waiting. Default 256.
    pub queue: u32,
    /// Maximum time that they wait. Default 10 s.
    pub queue_timeout: Duration,
}

impl Default for GroupOptions {
    fn default() -> Self {
        GroupOptions {
            balance: Balance::default(),
            max_fails: 3,
            fail_timeout: Duration::from_secs(10),
            next: Next::default(),
            tries: 3,
            check: None,
            queue: 256,
            queue_timeout: Duration::from_secs(10),
        }
    }
}

/// When a request is sent to another server, provided that its client has not received anything
/// yet. A request that may have had an effect is sent again only if it is idempotent and has no
/// body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// No connection, or one that broke before the response. Default true.
    pub error: bool,
    /// No connection or no response in time. Default true.
    pub timeout: bool,
    /// Responses with these statuses, which also count as failures of the server, except 403 and
    /// 404. Default none.
    pub statuses: Vec<StatusCode>,
}

impl Default for Next {
    fn default() -> Self {
        Next { error: true, timeout: true, statuses: Vec::new() }
    }
}

/// One server of a site.
#[derive(Debug)]
pub struct Server {
    /// Address and protocol.
    pub endpoint: Arc<Endpoint>,
    /// Share of the requests relative to the other servers; at least 1.
    pub weight: u32,
    /// True for a backup server, which gets requests only if no other server can.
    pub backup: bool,
    /// Maximum number of concurrent requests; `None`: no limit.
    pub max_requests: Option<u32>,
    seed: u64,
    pub(crate) health: Arc<Health>,
}

impl Server {
    /// Creates a server of weight 1.
    pub fn new(endpoint: Endpoint) -> Server {
        let seed = hash([endpoint.to_string().as_bytes()]);
        let endpoint = Arc::new(endpoint);
        let (weight, health) = (1, Arc::default());
        Server { endpoint, weight, backup: false, max_requests: None, seed, health }
    }

    /// Returns the server's state at `now`, in milliseconds of the clock.
    pub fn status(&self, now: u64) -> ServerStatus {
        self.health.status(now)
    }

    fn has_room(&self) -> bool {
        self.max_requests.is_none_or(|max| self.health.active.load(Relaxed) < max)
    }
}

/// Maximum number of servers of a site.
pub const SERVERS_MAX: usize = 64;

impl Group {
    /// Creates the group of the site `name`, with 1 to 64 servers; further ones are ignored.
    pub fn new(name: &str, mut servers: Vec<Server>, options: GroupOptions) -> Group {
        servers.truncate(SERVERS_MAX);
        let (name, turns, queue) = (name.to_owned(), RoundRobinState::default(), Arc::default());
        // If one server has no limit, there is no total.
        let places = servers.iter().map(|server| Some(server.max_requests? as usize));
        let half = |places: usize| (places / 2).clamp(1, Semaphore::MAX_PERMITS);
        let uploads = places.sum::<Option<usize>>().map(|all| Arc::new(Semaphore::new(half(all))));
        Group { name, servers, options, turns, queue, uploads }
    }

    /// Creates the group of a site with one server.
    pub fn one(endpoint: Endpoint) -> Group {
        Group::new("default", vec![Server::new(endpoint)], GroupOptions::default())
    }

    /// Returns a number that is unique to this group during its lifetime.
    pub fn number(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self) as usize
    }

    /// Waits for an upload permit, for a request whose client is still sending the body. Uploads
    /// get at most half of the capacity, so that slow ones leave the rest to other requests.
    pub(crate) async fn admit_upload(&self) -> Result<Option<OwnedSemaphorePermit>, Failure> {
        let Some(uploads) = &self.uploads else { return Ok(None) };
        let bound = self.options.queue_timeout;
        match timeout(bound, uploads.clone().acquire_owned()).await {
            // The semaphore is never closed.
            Ok(permit) => Ok(permit.ok()),
            Err(_) => {
                let seconds = bound.as_secs_f32();
                let text = format!("{self} were at their upload limit for {seconds} s");
                Err(Failure::Failed(Reason::UpstreamBusy, text))
            }
        }
    }

    /// Returns whether a request would have to wait for a server, or would find none.
    pub(crate) fn is_crowded(&self, now: u64) -> bool {
        let is_limited = self.servers.iter().any(|server| server.max_requests.is_some());
        is_limited && (self.waiting() > 0 || !self.has_room(now))
    }

    /// Returns the servers, in the order of the configuration.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the number of the first server that `is_wanted` accepts.
    pub(crate) fn at(&self, is_wanted: impl Fn(&Endpoint) -> bool) -> Option<usize> {
        self.servers.iter().position(|server| is_wanted(&server.endpoint))
    }

    /// Returns the name of the site.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the options.
    pub fn options(&self) -> &GroupOptions {
        &self.options
    }

    /// Returns how many requests of all workers wait for a server.
    pub fn waiting(&self) -> u32 {
        self.queue.waiting()
    }

    /// Returns the state of the queue.
    pub fn queue_status(&self) -> QueueStatus {
        self.queue.status()
    }

    /// Returns the hash of a URL that determines its server; 0 if the choice does not depend on it.
    pub(crate) fn hash(&self, host: &str, uri: &Uri) -> u64 {
        if self.options.balance != Balance::UrlHash {
            return 0;
        }
        let path = uri.path_and_query().map_or("", |path| path.as_str());
        hash([host.as_bytes(), path.as_bytes()])
    }

    /// Returns the hash of a URL without its query, which identifies failures of one page; 0 if it
    /// is not needed.
    pub(crate) fn page(&self, host: &str, uri: &Uri) -> u64 {
        if self.servers.len() < 2 {
            return 0;
        }
        hash([host.as_bytes(), uri.path().as_bytes()])
    }

    /// Takes over the queue and the health of servers that exist in both groups.
    pub fn adopt(&mut self, before: &Group) {
        for server in &mut self.servers {
            let same = |old: &&Server| old.endpoint.at == server.endpoint.at;
            if let Some(old) = before.servers.iter().find(same) {
                server.health = old.health.clone();
            }
        }
        // Requests that end at the old servers free capacity at these.
        self.queue = before.queue.clone();
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns whether a server that may be used is below its limit.
    pub(crate) fn has_room(&self, now: u64) -> bool {
        let all_out = self.is_all_out(now);
        let free = |server: &Server| {
            let health = &server.health;
            let is_used = health.fit(now) == Fit::Yes || (all_out && health.is_last_resort());
            server.has_room() && is_used
        };
        self.servers.iter().any(free)
    }

    fn is_all_out(&self, now: u64) -> bool {
        self.servers.iter().all(|server| server.health.fit(now) != Fit::Yes)
    }

    /// Returns whether a server may get a request. `all_out` says that all servers are out of use.
    fn is_eligible(&self, server: &Server, all_out: bool, now: u64) -> bool {
        let health = &server.health;
        health.fit(now) != Fit::No || (all_out && health.is_last_resort())
    }

    /// Returns whether a server outside `tried` may get the request.
    pub(crate) fn has_other(&self, tried: u64, now: u64) -> bool {
        let (left, all_out) = (self.all() & !tried, self.is_all_out(now));
        members(left).any(|at| self.is_eligible(&self.servers[at], all_out, now))
    }

    /// Chooses the server for a request whose URL has this hash, outside the set `tried`.
    pub(crate) fn choose(
        self: &Arc<Self>,
        tried: u64,
        hash: u64,
        clock: TokioClock,
    ) -> Result<Serving, Failure> {
        let now = clock.millis();
        let (mut refused, all_out) = (tried, self.is_all_out(now));
        for backup in [false, true] {
            loop {
                let set = self.fit(backup, all_out, now) & !refused;
                if set == 0 {
                    break;
                }
                let at = self.best(set, hash);
                let health = &self.servers[at].health;
                let trial = health.fit(now) != Fit::Yes;
                let may_join = all_out && health.is_last_resort();
                if trial && !health.begin_trial() && !may_join {
                    refused |= 1 << at;
                    continue;
                }
                return Ok(Serving::begin(self.clone(), at, trial, clock));
            }
        }
        Err(self.no_server(now))
    }

    fn all(&self) -> u64 {
        u64::MAX >> (64 - self.servers.len())
    }

    /// Returns the set of servers that may get a request.
    fn fit(&self, backup: bool, all_out: bool, now: u64) -> u64 {
        let fits = |at: &usize| {
            let server = &self.servers[*at];
            server.backup == backup && self.is_eligible(server, all_out, now) && server.has_room()
        };
        members(self.all()).filter(fits).fold(0, |set, at| set | 1 << at)
    }

    fn best(&self, set: u64, hash: u64) -> usize {
        if set.is_power_of_two() {
            return set.trailing_zeros() as usize;
        }
        let weight = |at: usize| self.servers[at].weight.max(1);
        match self.options.balance {
            Balance::RoundRobin => self.turns.next(set, weight),
            Balance::LeastConnections => {
                let load = |at: usize| self.servers[at].health.active.load(Relaxed);
                self.turns.next(balance::least(set, load, weight), weight)
            }
            Balance::UrlHash => balance::rendezvous(set, hash, |at| self.servers[at].seed, weight),
        }
    }

    pub(crate) fn no_server(&self, now: u64) -> Failure {
        let all_out = self.is_all_out(now);
        let busy = |server: &Server| self.is_eligible(server, all_out, now) && !server.has_room();
        match self.servers.iter().any(busy) {
            true => {
                let text = format!("{self} are at their request limit");
                Failure::Failed(Reason::UpstreamBusy, text)
            }
            false => {
                let text = format!("{self} are out of use: all failed recently");
                Failure::Failed(Reason::NoUpstream, text)
            }
        }
    }

    /// Logs that a server is out of use or back in use.
    pub(crate) fn report(&self, at: usize, back: bool, why: &str) {
        let (server, site) = (&self.servers[at].endpoint, &self.name);
        match back {
            true => {
                log::info!("upstream {server} of site {site} is back in use{why}");
                self.queue.wake();
            }
            false => log::warn!("upstream {server} of site {site} is OUT OF USE: {why}"),
        }
    }
}

impl fmt::Display for Group {
    /// Writes the server if there is only one, else the site.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.servers.as_slice() {
            [only] => only.endpoint.fmt(f),
            _ => write!(f, "the servers of site {}", self.name),
        }
    }
}

/// One request at one server, from the choice of the server to the end of the response body.
#[derive(Debug)]
pub(crate) struct Serving {
    group: Arc<Group>,
    pub at: usize,
    trial: Cell<bool>,
    clock: TokioClock,
    upload: Option<OwnedSemaphorePermit>,
}

impl Serving {
    fn begin(group: Arc<Group>, at: usize, trial: bool, clock: TokioClock) -> Serving {
        let health = &group.servers[at].health;
        health.active.fetch_add(1, Relaxed);
        health.figures.requests.fetch_add(1, Relaxed);
        Serving { group, at, trial: Cell::new(trial), clock, upload: None }
    }

    /// Keeps its upload permit until it ends.
    pub fn keep_upload(&mut self, upload: Option<OwnedSemaphorePermit>) {
        self.upload = upload;
    }

    fn health(&self) -> &Health {
        &self.group.servers[self.at].health
    }

    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.group.servers[self.at].endpoint
    }

    /// Counts a connection that was opened for it.
    pub fn connected(&self, after: Duration) {
        let figures = &self.health().figures;
        figures.connects.fetch_add(1, Relaxed);
        let us = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        figures.connect_us.fetch_add(us, Relaxed);
    }

    /// Records that the server responded.
    pub fn succeeded(&self) {
        let trial = self.trial.replace(false);
        if self.health().succeeded(trial, self.clock.millis()) {
            self.group.report(self.at, true, "");
        }
    }

    /// Records that the request failed at the server.
    pub fn failed(&self, blame: Blame, why: &str) {
        let GroupOptions { max_fails, fail_timeout, .. } = self.group.options;
        // Taking the only server out of use would not help.
        let limit = if self.group.servers.len() > 1 { max_fails } else { 0 };
        let trial = self.trial.replace(false);
        if self.health().failed(blame, trial, (limit, fail_timeout), self.clock.millis()) {
            self.group.report(self.at, false, why);
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.health().active.fetch_sub(1, Relaxed);
        if mem::take(self.trial.get_mut()) {
            self.health().abandon_trial();
        }
        if self.group.servers[self.at].max_requests.is_some() {
            self.group.queue.wake();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn group(options: GroupOptions, change: impl Fn(usize, &mut Server)) -> Arc<Group> {
        let server = |at: usize| {
            let mut server = Server::new(Endpoint::plain("a.example", 8000 + at as u16));
            change(at, &mut server);
            server
        };
        Arc::new(Group::new("site", (0..3).map(server).collect(), options))
    }

    thread_local! {
        static CLOCK: TokioClock = TokioClock::system();
    }

    fn clock() -> TokioClock {
        CLOCK.with(|clock| *clock)
    }

    /// Returns the numbers of the next `n` servers that get a request and respond.
    fn order(group: &Arc<Group>, n: usize) -> Vec<usize> {
        let next = || {
            let serving = group.choose(0, 0, clock()).unwrap();
            serving.succeeded();
            serving.at
        };
        (0..n).map(|_| next()).collect()
    }

    fn fail(group: &Arc<Group>, at: usize, times: usize) {
        for _ in 0..times {
            let serving = Serving::begin(group.clone(), at, false, clock());
            serving.failed(Blame::Silence, "it is a test");
        }
    }

    #[test]
    fn a_failed_server_is_out_of_use_and_tried_once() {
        let fail_timeout = Duration::ZERO;
        let options = GroupOptions { fail_timeout, max_fails: 2, ..GroupOptions::default() };
        let all = group(options, |_, _| ());
        assert_eq!(order(&all, 3), [0, 1, 2]);
        fail(&all, 1, 2);
        // The pause is over at once: one request gets the server, but not a second one at the same
        // time.
        let trials: Vec<Serving> = (0..6).map(|_| all.choose(0, 0, clock()).unwrap()).collect();
        assert_eq!(trials.iter().filter(|serving| serving.at == 1).count(), 1);
        drop(trials);
        let mut trials = (0..3).map(|_| all.choose(0, 0, clock()).unwrap());
        let trial = trials.find(|serving| serving.at == 1).unwrap();
        trial.succeeded();
        drop(trial);
        assert_eq!(order(&all, 6).iter().filter(|&&at| at == 1).count(), 2);
    }

    #[test]
    fn backups_are_used_last_and_no_server_is_an_error() {
        let all = group(GroupOptions::default(), |at, server| server.backup = at == 2);
        assert_eq!(order(&all, 4), [0, 1, 0, 1]);
        fail(&all, 0, 3);
        assert_eq!(order(&all, 2), [1, 1]);
        fail(&all, 1, 3);
        assert_eq!(order(&all, 2), [2, 2]);
        fail(&all, 2, 3);
        let Err(failure) = all.choose(0, 0, clock()) else { panic!("no server is left") };
        assert!(matches!(failure, Failure::Failed(Reason::NoUpstream, _)));
        // A reload keeps the health.
        let mut next = Group::new("site", vec![], GroupOptions::default());
        next.servers = vec![Server::new(Endpoint::plain("a.example", 8000))];
        next.adopt(&all);
        assert!(Arc::new(next).choose(0, 0, clock()).is_err());
    }

    #[test]
    fn servers_that_fail_fast_are_the_last_resort() {
        let all = group(GroupOptions { max_fails: 1, ..GroupOptions::default() }, |_, _| ());
        for at in 0..3 {
            let blame = if at == 2 { Blame::Silence } else { Blame::Request(at) };
            let serving = Serving::begin(all.clone(), at as usize, false, clock());
            serving.failed(blame, "it is a test");
        }
        let used: Vec<Serving> = (0..4).map(|_| all.choose(0, 0, clock()).unwrap()).collect();
        assert!(used.iter().all(|serving| serving.at < 2));
        assert!(all.has_other(0b001, clock().millis()) && !all.has_other(0b011, clock().millis()));
        // A response brings its server back.
        used.iter().find(|serving| serving.at == 1).unwrap().succeeded();
        drop(used);
        assert_eq!(order(&all, 3), [1, 1, 1]);
    }

    #[test]
    fn the_only_server_stays_in_use() {
        let only = Arc::new(Group::one(Endpoint::plain("a.example", 80)));
        fail(&only, 0, 100);
        assert_eq!(order(&only, 2), [0, 0]);
    }

    #[test]
    fn no_server_exceeds_its_request_limit() {
        let all = group(GroupOptions::default(), |_, server| server.max_requests = Some(2));
        let held: Vec<Serving> = (0..6).map(|_| all.choose(0, 0, clock()).unwrap()).collect();
        let Err(failure) = all.choose(0, 0, clock()) else { panic!("all are busy") };
        assert!(matches!(failure, Failure::Failed(Reason::UpstreamBusy, _)));
        drop(held);
        assert!(all.choose(0, 0, clock()).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn uploads_get_half_of_the_capacity() {
        let all = group(GroupOptions::default(), |_, server| server.max_requests = Some(1));
        let held = all.admit_upload().await.unwrap();
        assert!(held.is_some());
        let busy = all.admit_upload().await;
        assert!(matches!(busy, Err(Failure::Failed(Reason::UpstreamBusy, _))));
        let mut serving = all.choose(0, 0, clock()).unwrap();
        serving.keep_upload(held);
        drop(serving);
        assert!(all.admit_upload().await.unwrap().is_some());
        let unlimited = group(GroupOptions::default(), |_, _| ());
        assert!(unlimited.admit_upload().await.unwrap().is_none());
    }

    #[test]
    fn a_tried_server_is_not_chosen_again() {
        let all = group(GroupOptions::default(), |_, _| ());
        assert_eq!(all.choose(0b101, 0, clock()).unwrap().at, 1);
        assert!(all.has_other(0b011, 1) && !all.has_other(0b111, 1));
    }
}
