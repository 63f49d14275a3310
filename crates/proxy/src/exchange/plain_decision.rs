//! A plain request that is no plain hit: [`dispatch`] decides on it as on any other, but hyper need
//! not read it, nor write the answer, if that is whole and of the usual form by the time its head
//! is there. So most misses are answered.
//!
//! It promises the answer that the client would get by way of hyper.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use message::date;
use store::Key;

use crate::client::handle::Client;
use crate::exchange::dispatch;
use crate::request::plain_request::{PlainRequest, Spare};
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;
use crate::response::written_head;
use crate::services::Services;

/// A plain request that is being decided on.
pub(crate) struct Decision {
    answer: Pin<Box<dyn Future<Output = Response<ResponseBody>>>>,
    /// Bytes of the request.
    length: usize,
}

impl Decision {
    /// Begins it for a request with this key; `None` when it is left to hyper.
    pub fn begin(
        services: &Rc<Services>,
        client: &Rc<Client>,
        request: &PlainRequest<'_, '_>,
        key: Option<Key>,
        spare: &mut Spare,
    ) -> Option<Decision> {
        let length = request.text.len();
        let mut parts = request.to_parts(spare)?;
        let (services, client) = (services.clone(), client.clone());
        let answer =
            async move { dispatch::answer_plain(&services, &client, &mut parts, key).await };
        Some(Decision { answer: Box::pin(answer), length })
    }

    /// Waits for the answer. Returns also the bytes of the request.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Response<ResponseBody>, usize)> {
        self.answer.as_mut().poll(cx).map(|answer| (answer, self.length))
    }
}

/// Writes the head of an answer to `head`, and takes its body, if that is whole; else the answer
/// stays as it is, but for its `Date`.
pub(crate) fn write(
    services: &Services,
    answer: &mut Response<ResponseBody>,
    head: &mut Vec<u8>,
) -> Option<(Bytes, Transaction)> {
    let length = answer.body().whole_length()?;
    date::set(answer.headers_mut(), services.clock);
    written_head::write(answer.status(), answer.headers(), length, head)?;
    answer.body_mut().take_whole()
}
