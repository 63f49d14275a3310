//! The cores of a measurement: one for the servers, all others for the load generator.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Assignment of cores.
pub struct Cores {
    /// The core of the servers.
    pub server: usize,
    others: CpuSet,
}

impl Cores {
    /// Divides the cores that this thread may use: the last one is for the servers. A single core
    /// is shared by all.
    ///
    /// # Errors
    ///
    /// When the kernel does not report the cores.
    pub fn divide() -> Result<Cores, String> {
        let all = sched_getaffinity(None).map_err(|e| format!("the cores: {e}"))?;
        let mut ours = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
        let server = ours.next_back().ok_or("no core for the servers")?;
        let mut others = all;
        if all.count() > 1 {
            others.unset(server);
        }
        Ok(Cores { server, others })
    }

    /// Keeps this thread off the servers' core.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn leave_server_alone(&self) -> Result<(), String> {
        sched_setaffinity(None, &self.others).map_err(|e| format!("the cores: {e}"))
    }
}

#[test]
fn the_servers_core_is_not_that_of_the_load_where_there_are_two() {
    let cores = Cores::divide().unwrap();
    let alone = sched_getaffinity(None).unwrap().count() == 1;
    assert_eq!(cores.others.is_set(cores.server), alone);
}
