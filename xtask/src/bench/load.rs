//! The load generator: many keep-alive connections from one thread, every response checked.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use super::exchange::{Connection, all};
use super::scenario::{Scenario, is_body};

/// The objects to be requested, and their order.
#[derive(Clone, Copy)]
enum Order {
    /// Each once, from the first on.
    Once { objects: u64 },
    /// Uniformly at random.
    Random { objects: u64 },
    /// Objects not requested before, from this number on.
    Fresh { first: u64 },
}

/// The requests to send, and their duration.
pub struct Plan<'a> {
    scenario: &'a Scenario,
    order: Order,
    connections: usize,
    time: Option<Duration>,
}

/// First number of fresh objects, apart from all others.
const FRESH: u64 = 1 << 40;

impl<'a> Plan<'a> {
    /// Returns the requests that fill the caches before the scenario is measured.
    pub fn fill(scenario: &'a Scenario, connections: usize) -> Plan<'a> {
        let order = Order::Once { objects: scenario.fill };
        Plan { scenario, order, connections, time: None }
    }

    /// Returns the scenario's requests for `time`; the first `fresh` fresh objects are used up.
    pub fn rounds(
        scenario: &'a Scenario,
        connections: usize,
        time: Duration,
        fresh: u64,
    ) -> Plan<'a> {
        let order = match scenario.objects {
            0 => Order::Fresh { first: FRESH + fresh },
            objects => Order::Random { objects },
        };
        Plan { scenario, order, connections, time: Some(time) }
    }
}

/// State that the connections share.
struct Course<'a> {
    plan: &'a Plan<'a>,
    next: Cell<u64>,
    end: Option<Instant>,
    answered: Cell<u64>,
}

impl Course<'_> {
    /// Returns the next object to request; `None` when the plan is done.
    fn next(&self) -> Option<u64> {
        if self.end.is_some_and(|end| Instant::now() >= end) {
            return None;
        }
        let count = self.next.replace(self.next.get() + 1);
        match self.plan.order {
            Order::Once { objects } => (count < objects).then_some(count),
            Order::Random { objects } => Some(scramble(count) % objects),
            Order::Fresh { first } => Some(first + count),
        }
    }
}

/// Returns the number `count` of a fixed pseudo-random sequence, the same for every system and
/// round.
fn scramble(count: u64) -> u64 {
    let mut x = count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Runs `plan` against the server at `to`, and returns the number of requests that got a response.
///
/// # Errors
///
/// When a connection breaks or a response is wrong.
pub fn run(to: SocketAddr, plan: &Plan) -> Result<u64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|e| format!("the load generator: {e}"))?;
    let begin = Instant::now();
    let course = Rc::new(Course {
        plan,
        next: Cell::new(0),
        end: plan.time.map(|t| begin + t),
        answered: Cell::new(0),
    });
    LocalSet::new().block_on(&runtime, async {
        let clients = (0..plan.connections).map(|_| client(to, &course));
        all(clients.collect()).await
    })?;
    Ok(course.answered.get())
}

async fn client(to: SocketAddr, course: &Course<'_>) -> Result<(), String> {
    let scenario = course.plan.scenario;
    let mut connection = Connection::open(to, scenario.size).await?;
    while let Some(object) = course.next() {
        let path = scenario.path(object);
        let body = connection.get(&path).await?;
        if !is_body(object, scenario.size, body) {
            return Err(format!("{path}: a wrong body of {} bytes", body.len()));
        }
        course.answered.set(course.answered.get() + 1);
    }
    Ok(())
}
