//! Formats of the access log's lines.

use std::str::FromStr;
use std::sync::Arc;

use crate::message::template::{Stage, Template, Variable};

/// The format of a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Format {
    /// The combined format of web servers with times in UTC, followed by the outcome's name.
    #[default]
    Combined,
    /// Squid's native format: `%ts.%03tu %6tr %>a %Ss/%03>Hs %<st %rm %ru %[un %Sh/%<a %mt`.
    Squid,
    /// A JSON object.
    Json,
    /// A text with variables, whose values are escaped as nginx does.
    Own(Arc<Template>),
}

impl Format {
    /// Returns whether lines contain the id of the request.
    pub(crate) fn has_request_id(&self) -> bool {
        match self {
            Format::Combined | Format::Squid => false,
            Format::Json => true,
            Format::Own(template) => template.variables().any(|v| *v == Variable::RequestId),
        }
    }
}

impl FromStr for Format {
    type Err = String;

    /// Parses a name, or a text with variables. The error is a sentence.
    fn from_str(text: &str) -> Result<Format, String> {
        let named = match text {
            "combined" => Some(Format::Combined),
            "squid" => Some(Format::Squid),
            "json" => Some(Format::Json),
            _ => None,
        };
        if let Some(format) = named {
            return Ok(format);
        }
        let template = Template::parse(text, Stage::End)?;
        if template.fixed().is_some() {
            return Err(format!(
                "expected combined, squid, json or a text with variables such as {{client_ip}}, \
                 got {text:?}"
            ));
        }
        if text.contains(|c: char| c.is_control()) {
            return Err("expected one line without control characters".to_owned());
        }
        Ok(Format::Own(Arc::new(template)))
    }
}
