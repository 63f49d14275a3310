//! Connection to the servers of the stream.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use async_nats::{ConnectOptions, jetstream};
use bytes::Bytes;
use fleet::purges::stream::Extent;
use futures_util::StreamExt;
use futures_util::stream::ReadyChunks;
use rustls::ClientConfig;

use crate::address::{Credentials, StreamAddress};

/// Messages that are asked for, and carried out, at a time.
const BATCH: usize = 200;

/// How long the server may send neither a message nor a sign of life to a reader.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How long one request for messages is open.
const EXPIRES: Duration = Duration::from_secs(30);

/// How a node connects.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The stream.
    pub address: StreamAddress,
    /// How the node authenticates.
    pub credentials: Option<Credentials>,
    /// Settings of TLS, for an address that wants it.
    pub tls: Option<Arc<ClientConfig>>,
    /// Name of the node, as the servers list it.
    pub client: String,
    /// How long a server may take to answer.
    pub patience: Duration,
}

/// Open connection. It is closed when this, its readers and its publishers are dropped.
pub struct Connection {
    stream: Stream<()>,
    publisher: Publisher,
}

/// Message of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number in the stream.
    pub number: u64,
    /// When it was published, in seconds since 1970.
    pub at: u64,
    /// Its contents.
    pub payload: Bytes,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    ///
    /// No server answers in time, or it refuses. Holds the reason.
    pub async fn open(settings: &Settings) -> Result<Connection, String> {
        let Settings { address, credentials, tls, client, patience } = settings;
        let mut options = ConnectOptions::new()
            .name(client)
            .require_tls(address.is_tls())
            .connection_timeout(*patience)
            .request_timeout(Some(*patience))
            .ignore_discovered_servers()
            // Each server is tried once; the caller connects again, and asks what it has missed.
            .max_reconnects(address.servers.len());
        options = match credentials.clone() {
            Some(Credentials::Password { user, password }) => {
                options.user_and_password(user, password)
            }
            Some(Credentials::Token(token)) => options.token(token),
            None => options,
        };
        if let Some(tls) = tls {
            options = options.tls_client_config((**tls).clone());
        }
        let client = options.connect(&address.servers).await.map_err(told)?;
        let mut context = jetstream::new(client);
        context.set_timeout(*patience);
        let stream = context.get_stream_no_info(&address.stream).await.map_err(told)?;
        let publisher = Publisher { context, subject: address.subject.clone() };
        Ok(Connection { stream, publisher })
    }

    /// Returns the extent of the stream.
    ///
    /// # Errors
    ///
    /// There is no answer in time, or no such stream. Holds the reason.
    pub async fn extent(&self) -> Result<Extent, String> {
        let info = self.stream.get_info().await.map_err(told)?;
        let created = u64::try_from(info.created.unix_timestamp_nanos()).unwrap_or_default();
        let (first, last) = (info.state.first_sequence, info.state.last_sequence);
        Ok(Extent { created, first, last })
    }

    /// Returns the message with this number, if it is still there.
    ///
    /// # Errors
    ///
    /// There is no answer in time. Holds the reason.
    pub async fn message(&self, number: u64) -> Result<Option<Message>, String> {
        match self.stream.get_raw_message(number).await {
            Ok(StreamMessage { time, payload, .. }) => {
                let at = u64::try_from(time.unix_timestamp()).unwrap_or_default();
                Ok(Some(Message { number, at, payload }))
            }
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(told(error)),
        }
    }

    /// Begins to read behind message `after`.
    ///
    /// # Errors
    ///
    /// The server refuses, or does not answer in time. Holds the reason.
    pub async fn read_after(&self, after: u64) -> Result<Reader, String> {
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: after + 1 },
            ack_policy: AckPolicy::None,
            memory_storage: true,
            inactive_threshold: EXPIRES * 2,
            ..pull::Config::default()
        };
        let consumer = self.stream.create_consumer(config).await.map_err(told)?;
        let messages = consumer.stream().max_messages_per_batch(BATCH);
        let messages = messages.expires(EXPIRES).heartbeat(HEARTBEAT).messages();
        Ok(Reader(messages.await.map_err(told)?.ready_chunks(BATCH)))
    }

    /// Returns a publisher over this connection.
    pub fn publisher(&self) -> Publisher {
        self.publisher.clone()
    }
}

/// Reads the messages of a stream in order.
pub struct Reader(ReadyChunks<pull::Stream>);

impl Reader {
    /// Returns the messages that have come, at least one. Dropping the future loses none.
    ///
    /// # Errors
    ///
    /// The reader has ended. Holds the reason.
    pub async fn next(&mut self) -> Result<Vec<Message>, String> {
        let read = |message: Result<jetstream::Message, pull::MessagesError>| {
            let message = message.map_err(told)?;
            let info = message.info().map_err(told)?;
            let at = u64::try_from(info.published.unix_timestamp()).unwrap_or_default();
            Ok(Message { number: info.stream_sequence, at, payload: message.payload.clone() })
        };
        let messages = self.0.next().await.ok_or("the server ended the reading")?;
        messages.into_iter().map(read).collect()
    }
}

/// Publishes messages from any thread.
#[derive(Clone)]
pub struct Publisher {
    context: Context,
    subject: String,
}

impl Publisher {
    /// Publishes a message, and returns when the stream has it.
    ///
    /// # Errors
    ///
    /// No stream has acknowledged it in time; it may have it all the same. Holds the reason.
    pub async fn publish(&self, payload: Bytes) -> Result<(), String> {
        let sent = self.context.publish(self.subject.clone(), payload);
        sent.await.map_err(told)?.await.map(drop).map_err(told)
    }
}

/// Returns an error in words.
fn told(error: impl Display) -> String {
    error.to_string()
}
