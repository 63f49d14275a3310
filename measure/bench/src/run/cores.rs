//! The cores of a run, some for the generator and others for the program under test; and the limit
//! on open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the numbers of the cores that this thread may use.
pub fn allowed() -> Vec<usize> {
    let Ok(all) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect()
}

/// Restricts this thread, and threads that it starts, to these cores.
///
/// # Errors
/// Fails if one of them does not exist or may not be used.
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

/// Raises the limit on open files to the maximum for this process.
pub fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If this is refused, connections fail later, which is reported.
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
