//! Checks each address that a request is about to be sent to against the access rules.

use std::cell::RefCell;
use std::net::SocketAddr;

use upstream::failure::error;

use crate::observe::outcome::Error;
use crate::origin::failure::Failure;
use crate::rules::access::{Access, Denial, Query};

/// Access rules for one request, and the reason for their last refusal.
pub(crate) struct AddressCheck<'a> {
    access: &'a Access,
    query: Query<'a>,
    closes_private: bool,
    denial: RefCell<Option<Denial>>,
}

impl<'a> AddressCheck<'a> {
    pub fn new(access: &'a Access, query: Query<'a>) -> AddressCheck<'a> {
        AddressCheck { access, query, closes_private: false, denial: RefCell::default() }
    }

    /// Sets whether private addresses are closed to every client ([`Access::at_named`]).
    pub fn closing_private(self, closes_private: bool) -> AddressCheck<'a> {
        AddressCheck { closes_private, ..self }
    }

    /// Returns whether the request may go to this address.
    pub fn permits(&self, address: SocketAddr) -> bool {
        let asked = match self.closes_private {
            true => self.access.at_named(&self.query, address),
            false => self.access.at(&self.query, address),
        };
        asked.map_err(|denial| self.denial.replace(Some(denial))).is_ok()
    }

    /// Returns the failure of the request, with the denial recorded here if there is one.
    pub fn explain(&self, failure: error::Failure) -> Failure {
        match failure {
            error::Failure::Denied => match self.denial.take() {
                Some(denial) => Failure::Denied(denial),
                None => Failure::Failed(Error::Internal, "no rule denied it".to_owned()),
            },
            error::Failure::Failed(reason, cause) => Failure::Failed(reason.into(), cause),
            error::Failure::Request(status, text) => Failure::Request(status, text),
        }
    }
}
