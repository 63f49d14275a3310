//! The program's explanation of what it would do with a request, compared with what it then does.

use std::io;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use super::world::World;
use crate::client::get;

/// A response of `/explain`.
pub struct Explanation {
    would: String,
    /// True if the object is stored in parts, of which some may have to be fetched.
    in_parts: bool,
}

impl Explanation {
    /// Requests an explanation; returns `None` if the program refuses to explain such a request.
    pub async fn ask(
        world: &World,
        admin: SocketAddr,
        method: &str,
        url: &str,
        fields: &[(&str, String)],
        client: Option<IpAddr>,
    ) -> io::Result<Option<Explanation>> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("url", url).append_pair("method", method);
        for (name, value) in fields {
            query.append_pair("header", &format!("{name}: {value}"));
        }
        if let Some(client) = client {
            query.append_pair("client", &client.to_string());
        }
        let stream = world.network.connect(admin).await?;
        let asked = get(&format!("/explain?{}", query.finish())).header("Host", "localhost");
        let (reply, _) = asked.exchange(stream).await?;
        if reply.status != 200 {
            return Ok(None);
        }
        let told: Value = serde_json::from_slice(&reply.body).map_err(io::Error::other)?;
        let would = told["would"].as_str().unwrap_or_default().to_owned();
        Ok(Some(Explanation { would, in_parts: told["stored"]["in_parts"] == true }))
    }

    /// Compares the explanation with the `Cache-Status` of the response.
    pub fn judge(&self, status: &str) -> Result<(), String> {
        let Some((_, detail)) = status.split_once("detail=\"") else { return Ok(()) };
        let detail = detail.split('"').next().unwrap_or_default();
        let is = |begins: &[&str]| begins.iter().any(|begin| detail.starts_with(begin));
        // Requests that are rejected early, or that do not concern the cache, are not explained.
        if is(&["INVALID", "DENIED", "TUNNEL", "ERROR(loop)"]) {
            return Ok(());
        }
        let would = &*self.would;
        let happened = if let Some(why) = would.strip_prefix("pass it on ") {
            is(&[&format!("BYPASS{why}"), "ERROR"])
        } else if would.starts_with("answer 504") {
            is(&["ERROR(only-if-cached)"])
        } else if would.starts_with("answer from the cache: fresh") {
            is(&["HIT"]) || self.in_parts
        } else if would.starts_with("answer from the cache: stale") {
            is(&["STALE"]) || self.in_parts
        } else if would.starts_with("join the running fetch") {
            // The fetch's response decides whether it fits this request, and it may have ended
            // meanwhile.
            !is(&["ERROR(only-if-cached)"])
        } else {
            // The origin's response decides how the cache uses it.
            !is(&["HIT_RAM", "HIT_DISK", "HIT_FILL", "ERROR(only-if-cached)"])
        };
        match happened {
            true => Ok(()),
            false => Err(format!("explained as {would:?}, but it is {detail}")),
        }
    }

    /// Compares the explanation with the origin's first request, if it got any: whether that had a
    /// condition.
    pub fn judge_condition(&self, seen: Option<bool>) -> Result<(), String> {
        match seen {
            Some(false) if self.would.starts_with("ask the origin with a condition") => {
                Err(format!("explained as {:?}, but there was no condition", self.would))
            }
            _ => Ok(()),
        }
    }
}

#[test]
fn another_story_is_noticed() {
    let told = |would: &str| Explanation { would: would.to_owned(), in_parts: false };
    let happened = |detail: &str| format!("larder; detail=\"{detail}\"");
    for (would, right, wrong) in [
        ("pass it on (no-store)", "BYPASS(no-store)", "MISS"),
        ("answer 504: nothing is stored, and only-if-cached", "ERROR(only-if-cached)", "MISS"),
        ("answer from the cache: fresh, 3 s old", "HIT_RAM", "REFRESHED"),
        ("answer from the cache: stale, which max-stale permits", "STALE(max-stale)", "HIT_DISK"),
        ("ask the origin", "MISS", "ERROR(only-if-cached)"),
        ("ask the origin", "MISS", "HIT_FILL"),
        ("join the running fetch: fresh, 1 s old", "HIT_FILL", "ERROR(only-if-cached)"),
        ("ask the origin with a condition: the stored response is stale", "REVALIDATED", "HIT_RAM"),
    ] {
        assert_eq!(told(would).judge(&happened(right)), Ok(()));
        assert!(told(would).judge(&happened(wrong)).is_err(), "{would}");
    }
}
