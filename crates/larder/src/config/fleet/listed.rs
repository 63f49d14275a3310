//! A member in a configured list of members: `name@host:port`, optionally followed by `zone=NAME`
//! and `capacity=SIZE`.

use std::str::FromStr;

use cli::units;
use fleet::MemberId;
use fleet::member::Address;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub id: MemberId,
    pub address: Address,
    /// Failure domain, if given.
    pub zone: Option<String>,
    /// Capacity in bytes. A member's share of the documents is its share of the total capacity.
    pub capacity: Option<u64>,
}

impl FromStr for Listed {
    type Err = ();

    fn from_str(text: &str) -> Result<Listed, ()> {
        parse(text).ok_or(())
    }
}

fn parse(text: &str) -> Option<Listed> {
    let mut words = text.split_ascii_whitespace();
    let (name, address) = words.next()?.split_once('@')?;
    let mut listed = Listed {
        id: name.parse().ok()?,
        address: address.parse().ok()?,
        zone: None,
        capacity: None,
    };
    for word in words {
        match word.split_once('=')? {
            ("zone", zone) if listed.zone.is_none() => {
                // Zone names follow the same rules as member names.
                listed.zone = Some(zone.parse::<MemberId>().ok()?.to_string());
            }
            ("capacity", size) if listed.capacity.is_none() => {
                listed.capacity = Some(units::parse_size(size)?);
            }
            _ => return None,
        }
    }
    Some(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_with_what_is_said_of_them() {
        let bare: Listed = "a@[::1]:3130".parse().unwrap();
        assert_eq!((bare.id.as_str(), bare.zone, bare.capacity), ("a", None, None));
        assert_eq!(bare.address.to_string(), "[::1]:3130");
        let full: Listed = "a-1@host:1  capacity=10G zone=rack-1".parse().unwrap();
        assert_eq!((full.zone.as_deref(), full.capacity), (Some("rack-1"), Some(10 << 30)));
        for text in [
            "",
            "a",
            "a@",
            "a@host",
            "@host:1",
            "a@host:0",
            "a@host:1 zone",
            "a@host:1 zone=",
            "a@host:1 weight=1",
            "a@host:1 capacity=x",
            "a@host:1 zone=a zone=b",
        ] {
            assert!(text.parse::<Listed>().is_err(), "{text:?}");
        }
    }
}
