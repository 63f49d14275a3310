//! The settings of `[caching]` whose defaults depend on `caching.sharing`.

use semantics::{IdentifyingFields, Seconds, Settings};

/// The choices as written in the configuration; `None` is `"auto"`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct SharingChoices {
    pub identifying: Vec<String>,
    pub heuristic_max: Option<Seconds>,
    pub store_set_cookie: Option<bool>,
    pub reuse_for_authorized: Option<bool>,
}

impl SharingChoices {
    /// Returns the settings with these choices; `settings.sharing` decides the open ones.
    pub fn settle(&self, settings: Settings) -> Settings {
        let base = Settings::of(settings.sharing);
        Settings {
            identifying: IdentifyingFields::new(&self.identifying),
            heuristic_max: self.heuristic_max.unwrap_or(base.heuristic_max),
            store_set_cookie: self.store_set_cookie.unwrap_or(base.store_set_cookie),
            reuse_for_authorized: self.reuse_for_authorized.unwrap_or(base.reuse_for_authorized),
            ..settings
        }
    }
}
