//! The cores of a run: some for the generator, others for what it tests; and the files that may be
//! open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the numbers of the cores that this thread may use.
pub fn allowed() -> Vec<usize> {
    let Ok(all) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect()
}

/// Keeps this thread, and those that it starts, to these cores.
///
/// # Errors
/// One of them is not there, or may not be used.
pub fn keep_to(cores: &[usize]) -> Result<(), String> {
    let mut set = CpuSet::new();
    for core in cores {
        if *core >= CpuSet::MAX_CPU {
            return Err(format!("core {core}: there is none of this number"));
        }
        set.set(*core);
    }
    sched_setaffinity(None, &set).map_err(|error| format!("cores {cores:?}: {error}"))
}

/// Allows as many open files as this process may have.
pub fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it is refused connections fail, which is said.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

#[test]
fn this_thread_is_kept_to_a_core() {
    let all = allowed();
    std::thread::spawn(move || {
        keep_to(&all[..1]).unwrap();
        assert_eq!(allowed(), all[..1]);
    })
    .join()
    .unwrap();
    assert!(keep_to(&[1 << 20]).is_err());
}
