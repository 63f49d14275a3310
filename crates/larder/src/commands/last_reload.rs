//! The outcome of the last reload, for metrics and `/status`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use proxy::TokioClock;
use proxy::observe::metrics::{Samples, Source};

/// The last reload, if there was one; shared by all clones.
#[derive(Clone, Default)]
pub struct LastReload(Arc<Mutex<Option<Outcome>>>);

#[derive(Clone)]
struct Outcome {
    /// Time in seconds since 1970.
    at: u64,
    /// Why it failed; `None` if it did not.
    error: Option<String>,
}

impl LastReload {
    /// Notes a reload that has just ended.
    pub fn note(&self, error: Option<String>) {
        let now = TokioClock::system().wall();
        let at = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Outcome { at, error });
    }

    fn get(&self) -> Option<Outcome> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns time and outcome as JSON; null if there was no reload.
    pub fn view(&self) -> serde_json::Value {
        match self.get() {
            None => serde_json::Value::Null,
            Some(Outcome { at, error }) => {
                serde_json::json!({"at": at, "done": error.is_none(), "error": error})
            }
        }
    }
}

impl Source for LastReload {
    fn samples(&self, out: &mut Samples) {
        let last = self.get();
        let help = "1 unless the last reload of the configuration failed.";
        let is_good = last.as_ref().is_none_or(|last| last.error.is_none());
        out.gauge("larder_config_last_reload_successful", help, &[], is_good);
        let help = "Time of the last reload, in seconds since 1970; 0: none.";
        let at = last.map_or(0, |last| last.at);
        out.gauge("larder_config_last_reload_timestamp_seconds", help, &[], at);
    }
}
