//! The single declaration of every setting: its name, its accepted values, its default, whether it
//! can change at run time, and its effect.
//!
//! The command line, its help, the configuration file, the reload on SIGHUP and the check of
//! `docs/reference/configuration.md` all read these tables, so they cannot disagree.

mod caching;
mod classes;
mod client;
mod common;
mod compression;
mod files;
mod fill;
mod fleet;
mod general;
mod listeners;
mod purging;
mod rules;
mod storing;
mod tables;
mod upstream;

pub use classes::CLASS;
pub use common::Setting;
pub use fleet::CLASS as FLEET_CLASS;
pub use listeners::{CERTIFICATE, LISTENER};
pub use rules::{CONDITION, RESPONSE, RULE, SUBSTITUTE};
pub use tables::{ACCESS, SITE};

use crate::config::configuration::Config;
use crate::config::setting::{Field, count, joined};

/// The parts of [`SETTINGS`].
const PARTS: &[&[Setting]] = &[
    general::SETTINGS,
    storing::SETTINGS,
    caching::SETTINGS,
    client::SETTINGS,
    upstream::POOL,
    upstream::FOR_ALL,
    files::FOR_ALL,
    fill::SETTINGS,
    compression::SETTINGS,
    listeners::SETTINGS,
    purging::SETTINGS,
    fleet::SETTINGS,
];

/// All settings outside the repeated tables, in the order of the documentation.
pub const SETTINGS: &[Setting] = &joined::<Config, { count(PARTS) }>(PARTS);

/// A document generated from all declarations: the documentation, or the example file.
pub trait Writer {
    /// Begins the keys of the table `[name]`.
    fn group(&mut self, name: &str);
    /// Begins the keys of the repeated table `[[name]]`, which `text` describes.
    fn table(&mut self, name: &str, text: &str);
    /// Writes a key, by its name within its table.
    fn key<T>(&mut self, key: &str, field: &Field<T>);
}

/// Writes all declarations with `writer`, in the order of the documentation.
pub fn write_all(writer: &mut impl Writer) {
    let mut within = None;
    for setting in SETTINGS {
        let (group, key) = setting.key.split_once('.').unwrap_or(("", setting.key));
        if !group.is_empty() && within != Some(group) {
            within = Some(group);
            writer.group(group);
        }
        writer.key(key, setting);
    }
    writer.table("site", "One site: its origin server, or its directory of files.");
    SITE.iter().for_each(|field| writer.key(field.key, field));
    writer.table("access", "One access rule; the first that matches decides.");
    ACCESS.iter().for_each(|field| writer.key(field.key, field));
    writer.table(
        "class",
        "A table from values of a request to words, for rules (docs/guide/rules.md).",
    );
    CLASS.iter().for_each(|field| writer.key(field.key, field));
    writer.table(
        "rule",
        "Settings for some requests; the first rule that matches decides, unless it continues \
         (docs/guide/rules.md).",
    );
    RULE.iter().for_each(|field| writer.key(field.key, field));
    writer.table(
        "rule.responses",
        "One entry for some responses of the origin server under a rule; all that match apply \
         (docs/guide/rules.md).",
    );
    RESPONSE.iter().for_each(|field| writer.key(field.key, field));
    writer.table(
        "rule.substitute",
        "One text that is replaced in bodies of the origin server's responses under a rule.",
    );
    SUBSTITUTE.iter().for_each(|field| writer.key(field.key, field));
    writer.table("listener", "One listening address (docs/guide/running.md).");
    LISTENER.iter().for_each(|field| writer.key(field.key, field));
    writer.table("certificate", "One certificate for clients.");
    CERTIFICATE.iter().for_each(|field| writer.key(field.key, field));
    writer.table(
        "fleet.class",
        "One class of a fleet's documents; the first that matches applies (docs/guide/classes.md). \
         All nodes should have the same classes.",
    );
    FLEET_CLASS.iter().for_each(|field| writer.key(field.key, field));
}

/// Returns the setting with this name.
pub fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

#[cfg(test)]
mod rule_keys;
#[cfg(test)]
mod tests;
