//! The declaration of every setting, once: its name, what it accepts, its default, whether it can
//! change while Larder runs, and what it does.
//!
//! The command line, its help, the configuration file, the reload on SIGHUP and the check of
//! `docs/configuration.md` all read these tables, so they cannot disagree.

mod caching;
mod client;
mod common;
mod fill;
mod general;
mod listeners;
mod purging;
mod rules;
mod storing;
mod tables;
mod upstream;

pub use common::Setting;
pub use listeners::{CERTIFICATE, LISTENER};
pub use rules::RULE;
pub use tables::{ACCESS, SITE};

use crate::config::configuration::Config;
use crate::config::setting::{count, joined};

/// The parts of [`SETTINGS`].
const PARTS: &[&[Setting]] = &[
    general::SETTINGS,
    storing::SETTINGS,
    caching::SETTINGS,
    client::SETTINGS,
    upstream::POOL,
    upstream::FOR_ALL,
    fill::SETTINGS,
    listeners::SETTINGS,
    purging::SETTINGS,
];

/// Every setting outside the repeated tables, in the order of the documentation.
pub const SETTINGS: &[Setting] = &joined::<Config, { count(PARTS) }>(PARTS);

/// The setting of this name.
pub fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

#[cfg(test)]
mod tests;
