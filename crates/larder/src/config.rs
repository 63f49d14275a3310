//! The configuration: the declarations of settings, their parsing, and their translation for the
//! crates below.

pub mod cgroup;
mod checks;
pub mod class;
mod class_uses;
pub mod configuration;
mod credentials;
mod env_values;
pub mod environment;
pub mod example_file;
pub mod file;
pub mod fleet;
pub mod idle_rules;
mod include;
pub mod layers;
pub mod listen_addr;
pub mod listener;
pub mod loaded;
pub mod origin_server;
pub mod request_rule;
pub mod rule_actions;
pub mod rule_condition;
pub mod rule_guards;
pub mod rule_response;
pub mod rule_substitute;
pub mod setting;
pub mod settings;
#[cfg(test)]
mod settings_docs;
pub mod sharing;
pub mod site_changes;
pub mod sizing;
pub mod sources;
pub mod status_times;
pub mod to_options;
pub mod unkeyed_edits;
pub mod upstreams;
pub mod value;
pub mod warnings;
pub mod webroot;
