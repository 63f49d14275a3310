//! Body of an HTTP/1.1 response, which owns the connection until it has ended.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crate::connection::put_back::PutBack;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http1::{Chunks, Piece, ResponseLength};
use semantics::Spellings;
use tokio::task::coop::consume_budget;
use tokio::task::{AbortHandle, spawn_local};

use super::error::Http1Error;
use super::{Exchange, Http1};
use crate::connection::stream::Stream;

pub(crate) struct Incoming {
    carrier: Carrier,
    decoder: Decoder,
    /// True if the connection can be reused once the body has ended.
    keeps_open: bool,
    /// Spelling of the field names in the response head.
    spellings: Spellings,
}

enum Carrier {
    Own(Box<Http1>),
    /// A task is still sending the request.
    Sending(Rc<RefCell<Exchange>>, AbortHandle),
    /// The connection was returned or dropped.
    Gone,
}

enum Decoder {
    Length(u64),
    Chunked(Chunks),
    UntilClose,
    Done,
}

impl Incoming {
    pub(super) fn new(
        connection: Box<Http1>,
        length: ResponseLength,
        keeps_open: bool,
        spellings: Spellings,
    ) -> Incoming {
        let decoder = Decoder::new(length);
        Incoming { carrier: Carrier::Own(connection), decoder, keeps_open, spellings }
    }

    /// Creates the body of a response that arrived before its request was sent completely. A task
    /// sends the rest of the request.
    pub(super) fn while_sending(
        exchange: Exchange,
        length: ResponseLength,
        spellings: Spellings,
    ) -> Incoming {
        let exchange = Rc::new(RefCell::new(exchange));
        let sent = exchange.clone();
        let sending = async move {
            // An origin that stops reading may have responded nevertheless.
            drop(poll_fn(|cx| sent.borrow_mut().poll_send(cx)).await);
        };
        let carrier = Carrier::Sending(exchange, spawn_local(sending).abort_handle());
        Incoming { carrier, decoder: Decoder::new(length), keeps_open: false, spellings }
    }

    /// Takes the spelling of the field names in the response head.
    pub fn take_spellings(&mut self) -> Spellings {
        std::mem::take(&mut self.spellings)
    }

    /// Returns the connection if the body has ended and both messages permit reuse. Does not check
    /// for bytes after the response.
    pub fn take_connection(&mut self) -> Option<Box<Http1>> {
        let carrier = std::mem::replace(&mut self.carrier, Carrier::Gone);
        match carrier {
            Carrier::Own(connection) if self.keeps_open && self.is_end_stream() => Some(connection),
            Carrier::Sending(_, task) => {
                task.abort();
                None
            }
            Carrier::Own(_) | Carrier::Gone => None,
        }
    }

    /// Takes the connection of a 101 response, with the bytes received after its head.
    pub fn into_switched(mut self) -> Option<PutBack<Stream>> {
        match std::mem::replace(&mut self.carrier, Carrier::Gone) {
            Carrier::Own(connection) => {
                let Http1 { stream, input, .. } = *connection;
                Some(PutBack::new(stream, input.freeze()))
            }
            _ => None,
        }
    }

    /// Returns the length of the body if it is known and all of it has arrived; `None` if it is
    /// empty.
    pub fn whole(&self) -> Option<usize> {
        match (&self.carrier, &self.decoder) {
            (Carrier::Own(connection), Decoder::Length(left @ 1..)) => {
                usize::try_from(*left).ok().filter(|left| *left <= connection.input.len())
            }
            _ => None,
        }
    }

    /// Takes a body that has arrived completely.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        let length = self.whole()?;
        let Carrier::Own(connection) = &mut self.carrier else { return None };
        self.decoder = Decoder::Length(0);
        Some(connection.input.split_to(length).freeze())
    }

    pub fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Http1Error>>> {
        let polled = match &mut self.carrier {
            Carrier::Own(connection) => self.decoder.poll(connection, cx),
            Carrier::Sending(exchange, _) => {
                self.decoder.poll(&mut exchange.borrow_mut().connection, cx)
            }
            Carrier::Gone => return Poll::Ready(None),
        };
        if let Poll::Ready(Some(Err(_))) = &polled {
            self.keeps_open = false;
            drop(self.take_connection());
        }
        polled
    }

    pub fn is_end_stream(&self) -> bool {
        match &self.decoder {
            Decoder::Length(left) => *left == 0,
            Decoder::Chunked(chunks) => chunks.is_done(),
            Decoder::UntilClose => false,
            Decoder::Done => true,
        }
    }

    /// Returns bounds on the bytes to come.
    pub fn size_hint(&self) -> SizeHint {
        match &self.decoder {
            Decoder::Length(left) => SizeHint::with_exact(*left),
            Decoder::Done => SizeHint::with_exact(0),
            Decoder::Chunked(_) | Decoder::UntilClose => SizeHint::default(),
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Carrier::Sending(_, task) = &self.carrier {
            task.abort();
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("size", &self.size_hint()).finish_non_exhaustive()
    }
}

impl Decoder {
    fn new(length: ResponseLength) -> Decoder {
        match length {
            ResponseLength::Bytes(length) => Decoder::Length(length),
            ResponseLength::Chunked => Decoder::Chunked(Chunks::default()),
            ResponseLength::UntilClose => Decoder::UntilClose,
        }
    }

    fn poll(
        &mut self,
        connection: &mut Http1,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Http1Error>>> {
        loop {
            let input = &mut connection.input;
            let left = match self {
                Decoder::Done | Decoder::Length(0) => return Poll::Ready(None),
                Decoder::Length(left) if !input.is_empty() => {
                    let count = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= count as u64;
                    return data(input.split_to(count).freeze());
                }
                Decoder::UntilClose if !input.is_empty() => return data(input.split().freeze()),
                Decoder::Length(left) => Some(*left),
                Decoder::UntilClose => Some(u64::MAX),
                Decoder::Chunked(chunks) => {
                    // One read may bring thousands of chunks.
                    ready!(pin!(consume_budget()).poll(cx));
                    match chunks.take(input) {
                        Ok(Piece::Data(bytes)) => return data(bytes),
                        Ok(Piece::Trailers(fields)) => {
                            return Poll::Ready(Some(Ok(Frame::trailers(fields))));
                        }
                        Ok(Piece::End) => return Poll::Ready(None),
                        Ok(Piece::Missing) => chunks.left(),
                        Err(error) => return Poll::Ready(Some(Err(error.into()))),
                    }
                }
            };
            match ready!(connection.poll_more(left, cx)) {
                Ok(1..) => {}
                Ok(0) if matches!(self, Decoder::UntilClose) => {
                    *self = Decoder::Done;
                    return Poll::Ready(None);
                }
                Ok(0) => return Poll::Ready(Some(Err(Http1Error::Closed))),
                Err(error) => return Poll::Ready(Some(Err(Http1Error::Io(error)))),
            }
        }
    }
}

fn data(bytes: Bytes) -> Poll<Option<Result<Frame<Bytes>, Http1Error>>> {
    Poll::Ready(Some(Ok(Frame::data(bytes))))
}
