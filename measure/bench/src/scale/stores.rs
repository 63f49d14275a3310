//! Stores in the background: a session of the generator on a separate thread, with a separate
//! origin, which runs phases on request.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use super::node::BACKGROUND;
use super::plan::Plan;
use crate::run::PhasePlan;

/// The background stores.
pub struct Stores {
    phases: Sender<PhasePlan>,
    done: Receiver<Result<(), String>>,
    thread: JoinHandle<(Vec<String>, u64)>,
}

/// The error if the thread has ended early.
const GONE: &str = "the stores in the background have failed";

impl Stores {
    /// Starts the thread. Each store is of another object of `bytes` bytes.
    ///
    /// # Errors
    /// Fails if the origin's address cannot be bound.
    pub fn start(plan: &Plan, addresses: [SocketAddr; 2], bytes: u64) -> Result<Stores, String> {
        let (phases, to_run) = channel();
        let (tell, done) = channel();
        let plan = plan.clone();
        let thread = thread::spawn(move || serve(&plan, addresses, bytes, &to_run, &tell));
        let stores = Stores { phases, done, thread };
        stores.wait()?;
        Ok(stores)
    }

    /// Runs a phase to its end.
    ///
    /// # Errors
    /// Fails if the session fails.
    pub fn run(&self, phase: PhasePlan) -> Result<(), String> {
        self.begin(phase)?;
        self.wait()
    }

    /// Runs a phase while `meanwhile` runs, and waits for both.
    ///
    /// # Errors
    /// Fails if the session or `meanwhile` fails.
    pub fn beside<T>(
        &self,
        phase: PhasePlan,
        meanwhile: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        self.begin(phase)?;
        let done = meanwhile();
        self.wait()?;
        done
    }

    fn begin(&self, phase: PhasePlan) -> Result<(), String> {
        self.phases.send(phase).map_err(|_| GONE.to_owned())
    }

    fn wait(&self) -> Result<(), String> {
        self.done.recv().map_err(|_| GONE.to_owned())?
    }

    /// Ends the thread, and returns the first wrong responses and their number.
    ///
    /// # Errors
    /// Fails if the thread has failed.
    pub fn stop(self) -> Result<(Vec<String>, u64), String> {
        drop(self.phases);
        self.thread.join().map_err(|_| GONE.to_owned())
    }
}

fn serve(
    plan: &Plan,
    addresses: [SocketAddr; 2],
    bytes: u64,
    phases: &Receiver<PhasePlan>,
    done: &Sender<Result<(), String>>,
) -> (Vec<String>, u64) {
    let load = plan.unique(bytes);
    let mut session = match plan.session(addresses, BACKGROUND, load, plan.connections) {
        Ok(session) => session,
        Err(why) => {
            let _ = done.send(Err(why));
            return (Vec::new(), 0);
        }
    };
    let mut result = Ok(());
    // If the receiver is gone, there are no more phases either.
    while done.send(std::mem::replace(&mut result, Ok(()))).is_ok() {
        let Ok(phase) = phases.recv() else { break };
        result = session.run(&phase, &mut |_| ()).and_then(|_| session.settle());
    }
    let (failures, count) = session.failures();
    (failures.iter().map(ToString::to_string).collect(), count)
}
