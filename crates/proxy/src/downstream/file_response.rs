//! Responses whose body the kernel sends from a file (`sendfile`), over plain HTTP/1.1. hyper can
//! only send bytes that this program holds, so the connection is taken back from hyper between the
//! request and its response, as when it is parked. Head and body are written here, and a new hyper
//! connection reads the next request.
//!
//! Guarantee: hyper holds no bytes of the connection at that time, neither of a further request nor
//! of an earlier response. Where it may, and for any unusual head, hyper sends the response.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;

use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response, Version};
use http_body::Body;
use message::cut_short::Truncated;
use message::request_body::RequestBody;
use tokio::io::AsyncWriteExt;
use tokio::task::yield_now;
use upstream::connection::send_file::Sent;

use crate::downstream::client_io::ClientIo;
use crate::response::response_body::ResponseBody;
use crate::response::written_head;

/// Bytes that are sent before other connections of the worker get their turn.
const TURN: u64 = 1 << 20;

/// A response that is sent without hyper.
pub(crate) struct FileResponse {
    head: Vec<u8>,
    body: ResponseBody,
    /// The connection ends after it.
    pub is_last: bool,
}

/// The properties of a request that decide whether its response may be sent without hyper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestForm {
    /// HTTP/1.1 without a body. `closes`: the client wants no further response.
    Bare { closes: bool },
    /// Any other.
    Other,
}

impl RequestForm {
    /// Returns the form of a request.
    pub fn of(request: &Request<RequestBody>) -> RequestForm {
        match request.version() == Version::HTTP_11 && request.body().is_end_stream() {
            true => RequestForm::Bare { closes: closes(request.headers()) },
            false => RequestForm::Other,
        }
    }
}

/// Returns whether a request's fields ask for the end of the connection (RFC 9112, 9.6).
fn closes(fields: &HeaderMap) -> bool {
    let options = fields.get_all(header::CONNECTION).iter();
    options
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

impl FileResponse {
    /// Makes it of a response to a request without a body, if its body is a long file; else returns
    /// the response. `closes`: the connection ends after it.
    pub fn of(
        mut response: Response<ResponseBody>,
        closes: bool,
    ) -> Result<FileResponse, Box<Response<ResponseBody>>> {
        let length = response.body().size_hint().exact();
        let Some(length) = length.filter(|_| response.body_mut().prefers_kernel()) else {
            return Err(Box::new(response));
        };
        let is_last = response.headers_mut().remove(header::CONNECTION).is_some() || closes;
        let mut head = Vec::new();
        let (status, fields) = (response.status(), response.headers());
        if written_head::write(status, fields, length, &mut head).is_none() {
            if is_last {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            return Err(Box::new(response));
        }
        if is_last {
            head.truncate(head.len() - "\r\n".len());
            head.extend_from_slice(b"connection: close\r\n\r\n");
        }
        Ok(FileResponse { head, body: response.into_body(), is_last })
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// The client is gone, or the body broke off: the connection must not be used again.
    pub async fn send(mut self, io: &mut ClientIo) -> Result<(), Box<dyn Error>> {
        io.write_all(&self.head).await?;
        let mut turn = 0;
        while !self.body.is_end_stream() {
            match poll_fn(|cx| io.poll_send(cx, &mut self.body)).await? {
                Sent::Bytes(bytes) => {
                    turn += bytes;
                    if turn >= TURN {
                        turn = 0;
                        yield_now().await;
                    }
                }
                Sent::Full => {}
                Sent::Frames => {
                    let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await;
                    let Some(frame) = frame.transpose()? else {
                        return Err(Truncated("the file ended early").into());
                    };
                    if let Some(data) = frame.data_ref() {
                        io.write_all(data).await?;
                    }
                }
            }
        }
        Ok(io.flush().await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_option_close_is_found_in_any_line() {
        for (lines, expected) in [
            (&[][..], false),
            (&["keep-alive"], false),
            (&["close"], true),
            (&["keep-alive, Close "], true),
            (&["te", "close"], true),
            (&["closed"], false),
        ] {
            let line =
                |line: &&str| (header::CONNECTION, HeaderValue::try_from(*line).expect("text"));
            let mut fields = HeaderMap::new();
            lines.iter().map(line).for_each(|(name, value)| _ = fields.append(name, value));
            assert_eq!(closes(&fields), expected, "{lines:?}");
        }
    }
}
