//! Runs shared by several experiments of a paper: each is made once and kept until the process
//! ends.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::experiment::{Context, Failed, Variant};
use crate::run::whole_cache::Figures;

type Run<F> = Arc<OnceLock<Result<F, Failed>>>;

/// The results of all cases run so far.
pub(super) struct Runs<C, F = Figures>(Mutex<Option<HashMap<C, Run<F>>>>);

impl<C: Copy + Eq + Hash + Send, F: Clone + Send + Sync> Runs<C, F> {
    pub(super) const fn new() -> Runs<C, F> {
        Runs(Mutex::new(None))
    }

    /// Returns the result of each case in order, stored or computed by `run`. Concurrent calls for
    /// the same case wait for one run.
    pub(super) fn figures(
        &self,
        context: &mut Context<'_>,
        cases: &[C],
        label: impl Fn(&C) -> String,
        run: impl Fn(&C, &Variant) -> Result<F, Failed> + Sync,
    ) -> Result<Vec<F>, Failed> {
        let variants = cases.iter().map(|case| (label(case), *case));
        context.variants(variants, |variant, case| {
            let known = {
                let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                Arc::clone(runs.get_or_insert_default().entry(case).or_default())
            };
            known.get_or_init(|| run(&case, variant)).clone()
        })
    }
}
