//! The keys of a `[[rule]]` that decide which requests are admitted: limits and basic
//! authentication. Their translation for the proxy.

use std::fs;
use std::sync::Arc;

use http::StatusCode;
use proxy::rules::basic_auth::BasicAuth;
use proxy::rules::limits::{Limit, LimitKey, LimitTerms, Rate};

use crate::config::rule_condition::Wrong;

/// Status of refusals that no key states.
const USUAL_STATUS: StatusCode = StatusCode::TOO_MANY_REQUESTS;

/// Realm that no key states.
const USUAL_REALM: &str = "Restricted";

/// Largest file of users.
const FILE_MAX: u64 = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct RuleGuards {
    pub rate: Option<Rate>,
    pub burst: u32,
    pub queue: u32,
    pub concurrent: Option<u32>,
    pub bandwidth: Option<u64>,
    pub bandwidth_after: u64,
    pub by: LimitKey,
    pub limit_name: Option<String>,
    pub status: u16,
    pub dry_run: bool,
    pub basic_auth: Option<String>,
    pub realm: String,
}

impl RuleGuards {
    /// Returns whether requests must be admitted.
    pub fn is_any(&self) -> bool {
        self.has_limit() || self.basic_auth.is_some()
    }

    fn has_limit(&self) -> bool {
        self.rate.is_some() || self.concurrent.is_some() || self.bandwidth.is_some()
    }

    /// Returns the limits of the rule of this name.
    pub fn limit(&self, rule: &str) -> Result<Option<Arc<Limit>>, Wrong> {
        self.check_limit()?;
        if !self.has_limit() {
            return Ok(None);
        }
        let terms = LimitTerms {
            rule: rule.to_owned(),
            name: self.limit_name.clone(),
            by: self.by.clone(),
            rate: self.rate,
            burst: self.burst,
            queue: self.queue,
            concurrent: self.concurrent,
            bandwidth: self.bandwidth,
            bandwidth_after: self.bandwidth_after,
            // The bounds of the setting permit no other number.
            status: StatusCode::from_u16(self.status).unwrap_or(USUAL_STATUS),
            is_dry_run: self.dry_run,
        };
        Ok(Some(Arc::new(Limit::new(terms))))
    }

    fn check_limit(&self) -> Result<(), Wrong> {
        let refuses = self.rate.is_some() || self.concurrent.is_some();
        let beside = |key, text: &str| Err((key, format!("expected {text} beside it")));
        if self.burst > 0 && self.rate.is_none() {
            return beside("limit-burst", "limit-rate");
        }
        if self.queue > self.burst {
            let text = format!(
                "expected at most limit-burst ({}), of which it is a part, got {}",
                self.burst, self.queue
            );
            return Err(("limit-queue", text));
        }
        if self.bandwidth_after > 0 && self.bandwidth.is_none() {
            return beside("limit-bandwidth-after", "limit-bandwidth");
        }
        if self.by != LimitKey::Client && !self.has_limit() {
            return beside("limit-by", "limit-rate, limit-concurrent or limit-bandwidth");
        }
        if self.limit_name.is_some() && !self.has_limit() {
            return beside("limit-name", "limit-rate, limit-concurrent or limit-bandwidth");
        }
        if self.by == LimitKey::Request && refuses {
            let text = "\"request\" is for limit-bandwidth alone: put it in a rule of its own";
            return Err(("limit-by", text.to_owned()));
        }
        if self.status != USUAL_STATUS.as_u16() && !refuses {
            return beside("limit-status", "limit-rate or limit-concurrent");
        }
        if self.dry_run && (!refuses || self.bandwidth.is_some()) {
            let text = "expected limit-rate or limit-concurrent beside it, and no limit-bandwidth";
            return Err(("limit-dry-run", text.to_owned()));
        }
        Ok(())
    }

    /// Returns the users of `basic-auth`. Reads the file.
    pub fn users(&self) -> Result<Option<Arc<BasicAuth>>, Wrong> {
        let Some(file) = &self.basic_auth else {
            return match self.realm == USUAL_REALM {
                false => Err(("realm", "expected basic-auth beside it".to_owned())),
                true => Ok(None),
            };
        };
        let file = file.strip_prefix('@').unwrap_or(file);
        let why = |error: &dyn std::fmt::Display| ("basic-auth", format!("{file}: {error}"));
        let about = fs::metadata(file).map_err(|error| why(&error))?;
        if !about.is_file() || about.len() > FILE_MAX {
            return Err(why(&"expected a file of at most 16M"));
        }
        let text = fs::read_to_string(file).map_err(|error| why(&error))?;
        BasicAuth::check_realm(&self.realm).map_err(|text| ("realm", text))?;
        Ok(Some(Arc::new(BasicAuth::read(&self.realm, &text).map_err(|text| why(&text))?)))
    }
}
