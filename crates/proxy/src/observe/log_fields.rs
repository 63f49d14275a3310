//! Request texts for the access log, in buffers that the next request reuses.

use std::ops::Range;

/// Request texts for the access log. The URL has no user information.
#[derive(Clone, Debug, Default)]
pub struct LogFields {
    url: String,
    values: Vec<u8>,
    referer: Option<Range<usize>>,
    user_agent: Option<Range<usize>>,
    content_type: Option<Range<usize>>,
    /// Bytes of the response head, excluding date and framing.
    pub head_bytes: u64,
}

impl LogFields {
    /// Removes all texts but keeps their buffers.
    pub fn clear(&mut self) {
        self.url.clear();
        self.values.clear();
        (self.referer, self.user_agent, self.content_type) = (None, None, None);
        self.head_bytes = 0;
    }

    /// Returns the number of bytes of memory allocated for the texts.
    pub fn capacity(&self) -> usize {
        self.url.capacity() + self.values.capacity()
    }

    /// Appends a part of the URL.
    pub fn push_url(&mut self, part: &str) {
        self.url.push_str(part);
    }

    /// Sets the `Referer` and `User-Agent` of the request.
    pub fn set_client(&mut self, referer: Option<&[u8]>, user_agent: Option<&[u8]>) {
        self.referer = referer.map(|value| self.push(value));
        self.user_agent = user_agent.map(|value| self.push(value));
    }

    /// Sets the `Content-Type` of the response.
    pub fn set_content_type(&mut self, value: Option<&[u8]>) {
        self.content_type = value.map(|value| self.push(value));
    }

    fn push(&mut self, value: &[u8]) -> Range<usize> {
        let begin = self.values.len();
        self.values.extend_from_slice(value);
        begin..self.values.len()
    }

    /// Returns the whole URL; for `CONNECT`, host and port.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the `Referer` of the request.
    pub fn referer(&self) -> Option<&[u8]> {
        self.referer.clone().map(|place| &self.values[place])
    }

    /// Returns the `User-Agent` of the request.
    pub fn user_agent(&self) -> Option<&[u8]> {
        self.user_agent.clone().map(|place| &self.values[place])
    }

    /// Returns the `Content-Type` of the response.
    pub fn content_type(&self) -> Option<&[u8]> {
        self.content_type.clone().map(|place| &self.values[place])
    }
}
