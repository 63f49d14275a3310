//! Response to a request whose upstream gave none.

use http::Response;

use crate::observe::outcome::{Invalid, Outcome};
use crate::origin::failure::Failure;
use crate::response::error_response;
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;

/// Creates the response to a request whose upstream gave none.
pub(crate) fn failed(transaction: Transaction, failure: Failure) -> Response<ResponseBody> {
    let status = failure.status();
    match failure {
        Failure::Denied(denial) => {
            error_response::plain(transaction, status, Outcome::Denied(denial.reason), denial.text)
        }
        Failure::Failed(reason, cause) => {
            let text = transaction.failure_text(reason, &cause);
            error_response::plain(transaction, status, Outcome::Error(reason), text)
        }
        Failure::Request(_, text) => {
            let outcome = Outcome::Invalid(Invalid::Body);
            error_response::plain(transaction, status, outcome, format!("{text}\n"))
        }
    }
}
