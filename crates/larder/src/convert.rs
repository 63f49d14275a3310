//! Conversion of configurations of other proxies: nginx, Varnish (VCL 4), Squid.
//!
//! Each dialect is read into directives with their places, and written through [`output::Output`].
//! A directive is translated, needs no translation (with the reason in a table), or is a loss. A
//! lost condition of a bypass makes the rule bypass for all, and lost access control denies: what
//! is missing must not make a response public.

#[cfg(test)]
mod access_tests;
mod cases;
pub mod dialect;
pub mod glob_of_regex;
#[cfg(test)]
mod idiom_tests;
#[cfg(test)]
mod leak_tests;
#[cfg(test)]
mod lost_tests;
pub mod nginx;
pub mod output;
pub mod regex_of_text;
pub mod rule_draft;
pub mod source;
pub mod squid;
#[cfg(test)]
mod tests;
pub mod units_of_others;
pub mod url_test;
pub mod vcl;
