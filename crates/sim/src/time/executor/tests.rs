//! Tests of the executor and its clock.

use std::future::poll_fn;

use device::Clock;

use super::*;

/// Runs several sleepers and spinners; returns the order of their steps and the digest of the run.
fn run_of(seed: Option<u64>) -> (Vec<u32>, u64) {
    let executor = Executor::new(seed, 1_000);
    let order = Rc::new(RefCell::new(Vec::new()));
    let clock = executor.handle();
    let tasks: Vec<_> = (0..8)
        .map(|number: u32| {
            let (clock, order) = (clock.clone(), Rc::clone(&order));
            executor.handle().spawn(async move {
                for round in 1..4 {
                    clock.sleep_until(round * 1_000).await;
                    order.borrow_mut().push(number);
                }
            })
        })
        .collect();
    executor.run(async {
        for task in tasks {
            task.await;
        }
    });
    assert_eq!(clock.now(), 3_000);
    (order.take(), clock.history())
}

#[test]
fn without_a_seed_it_goes_by_arrival() {
    let (order, _) = run_of(None);
    let expected: Vec<u32> = (0..3).flat_map(|_| 0..8).collect();
    assert_eq!(order, expected);
}

#[test]
fn a_seed_decides_and_repeats() {
    let runs: Vec<_> = (0..10).map(|seed| run_of(Some(seed))).collect();
    for (seed, run) in runs.iter().enumerate() {
        assert_eq!(*run, run_of(Some(seed as u64)));
    }
    assert!(runs.iter().any(|run| run.0 != runs[0].0), "seeds give different orders");
    assert!(runs.iter().any(|run| run.1 != runs[0].1), "and different histories");
}

#[test]
fn time_jumps_and_wall_time_follows() {
    let executor = Executor::new(None, 1_700_000_000);
    let clock = executor.handle();
    executor.pass(3_600_000_000_000 * 24);
    assert_eq!(clock.unix_seconds(), 1_700_000_000 + 86_400);
    clock.set_unix_seconds(5);
    assert_eq!(clock.unix_seconds(), 5);
}

#[test]
fn runs_that_cannot_end_are_reported() {
    let executor = Executor::new(None, 0);
    let clock = executor.handle();
    assert_eq!(executor.try_run(10, std::future::pending::<()>()), Err(Stop::Stuck));
    assert_eq!(executor.try_run(10, clock.sleep_until(50)), Err(Stop::Late));
    let spin = poll_fn(|context: &mut Context<'_>| {
        context.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    assert_eq!(executor.try_run(10, spin), Err(Stop::Spinning));
    let halting = executor.handle();
    let halt = async {
        halting.halt();
        halting.sleep_until(1).await;
    };
    assert_eq!(executor.try_run(10, halt), Err(Stop::Halted));
    assert_eq!(executor.try_run(10, async { 7 }), Ok(7), "and it goes on");
}

#[test]
fn a_kill_drops_the_tasks_and_their_slots_serve_again() {
    let executor = Executor::new(Some(1), 0);
    let alive = Rc::new(());
    let clock = executor.handle();
    for _ in 0..100 {
        let (alive, clock) = (Rc::clone(&alive), clock.clone());
        executor.handle().spawn(async move {
            clock.sleep_until(1_000).await;
            drop(alive);
        });
    }
    executor.pass(10);
    assert_eq!(Rc::strong_count(&alive), 101);
    executor.kill();
    assert_eq!(Rc::strong_count(&alive), 1);
    let task = executor.handle().spawn(async { 5 });
    assert_eq!(executor.run(task), 5);
}

#[test]
fn an_executor_that_ends_lets_its_tasks_go() {
    let alive = Rc::new(());
    let executor = Executor::new(None, 0);
    let (held, clock) = (Rc::clone(&alive), executor.handle());
    executor.handle().spawn(async move {
        clock.sleep_until(1_000).await;
        drop(held);
    });
    executor.pass(1);
    drop(executor);
    assert_eq!(Rc::strong_count(&alive), 1);
}
