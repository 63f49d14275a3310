//! How many requests a client sends on a connection before it closes it.

use std::fmt;

use workload::generator::distributions::SplitMix;

/// The number of requests per connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestsPerConnection {
    /// Unlimited.
    Unlimited,
    /// A fixed number.
    Fixed(u32),
    /// Polygraph's zipf distribution with this maximum.
    Zipf(u32),
}

impl RequestsPerConnection {
    /// Parses `unlimited`, a number, or `zipf:MOST`.
    ///
    /// # Errors
    /// Fails if the text has another form.
    pub fn read(text: &str) -> Result<RequestsPerConnection, String> {
        let number = |text: &str| match text.parse() {
            Ok(number @ 1..) => Ok(number),
            _ => Err(format!("expected unlimited, a number from 1 on, or zipf:MOST, got {text:?}")),
        };
        match text.split_once(':') {
            _ if text == "unlimited" => Ok(RequestsPerConnection::Unlimited),
            Some(("zipf", most)) => number(most).map(RequestsPerConnection::Zipf),
            _ => number(text).map(RequestsPerConnection::Fixed),
        }
    }

    /// Draws the number of requests for a connection.
    pub fn draw(self, dice: &mut SplitMix) -> u32 {
        match self {
            RequestsPerConnection::Unlimited => u32::MAX,
            RequestsPerConnection::Fixed(requests) => requests,
            RequestsPerConnection::Zipf(most) => dice.zipf(most),
        }
    }
}

impl fmt::Display for RequestsPerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestsPerConnection::Unlimited => f.write_str("unlimited"),
            RequestsPerConnection::Fixed(requests) => write!(f, "{requests}"),
            RequestsPerConnection::Zipf(most) => write!(f, "zipf:{most}"),
        }
    }
}

#[test]
fn texts_read_back_and_polymix_has_its_mean() {
    for text in ["unlimited", "5", "zipf:64"] {
        assert_eq!(RequestsPerConnection::read(text).unwrap().to_string(), text);
    }
    for wrong in ["0", "", "zipf:", "zipf:0", "-1", "many"] {
        assert!(RequestsPerConnection::read(wrong).is_err(), "{wrong}");
    }
    let mut dice = SplitMix::new(1);
    let drawn = (0..100_000).map(|_| RequestsPerConnection::Zipf(64).draw(&mut dice));
    let mean = drawn.map(f64::from).sum::<f64>() / 1e5;
    assert!((mean - 14.9).abs() < 0.2, "{mean}");
}
