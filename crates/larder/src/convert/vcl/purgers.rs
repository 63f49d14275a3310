//! Clients that may purge, by the statements for the purging method.

use std::collections::BTreeMap;

use proxy::rules::purge_dialect::FIELDS;
use semantics::TagFields;

use crate::convert::vcl::syntax::{Kind, Statement, Token};

/// Subroutines by their names.
type Subs<'a> = BTreeMap<&'a str, Vec<&'a Statement>>;

/// Depth of nested blocks and calls.
const DEPTH_MAX: usize = 32;

/// Ends of statements for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ends {
    purges: bool,
    refuses: bool,
    /// The statements behind run.
    continues: bool,
}

/// Reads statements for the clients that are in a list, or for the others.
struct Reader<'a> {
    subs: &'a Subs<'a>,
    acl: Option<&'a str>,
    is_in_acl: bool,
    /// A further condition decides on whether a request purges.
    is_unknown: bool,
}

/// Returns the name of the list of clients that may purge; `None` if the statements name no list.
/// The error is why they have no equivalent.
pub fn acl<'a>(all: &[&'a Statement], subs: &'a Subs<'a>) -> Result<Option<&'a str>, String> {
    let mut reader = Reader { subs, acl: None, is_in_acl: true, is_unknown: false };
    let inside = reader.block(all, 0);
    reader.is_in_acl = false;
    let outside = reader.block(all, 0);
    if reader.is_unknown || inside.refuses {
        return Err("a further condition decides on purges".to_owned());
    }
    match reader.acl {
        Some(_) if outside.purges => Err("clients outside of the acl purge".to_owned()),
        acl => Ok(acl),
    }
}

impl<'a> Reader<'a> {
    fn block(&mut self, all: &[&'a Statement], depth: usize) -> Ends {
        let mut ends = Ends { continues: true, ..Ends::default() };
        if depth > DEPTH_MAX {
            self.is_unknown = true;
            return ends;
        }
        let mut at = 0;
        while let Some(one) = all.get(at).filter(|_| ends.continues) {
            let begin = at;
            at += 1;
            let next = match one.word(0) {
                "if" => {
                    let is_more = |one: &&&Statement| {
                        matches!(one.word(0), "else" | "elsif" | "elseif" | "elif")
                    };
                    at += all[at..].iter().take_while(is_more).count();
                    self.branches(&all[begin..at], depth)
                }
                "call" => {
                    let called = self.subs.get(one.word(1)).cloned().unwrap_or_default();
                    let mut ends = self.block(&called, depth + 1);
                    ends.continues |= called.is_empty();
                    ends
                }
                "ban" | "std.ban" => Ends { purges: true, ..Ends::default() },
                "return" => {
                    // A hit may purge in vcl_hit.
                    let is_done = matches!(one.word(2), "hash" | "lookup")
                        || (one.word(2) == "synth" && one.word(4).starts_with('2'));
                    let purges = one.word(2) == "purge";
                    Ends { purges, refuses: !purges && !is_done, continues: false }
                }
                _ => continue,
            };
            ends = Ends {
                purges: ends.purges || next.purges,
                refuses: ends.refuses || next.refuses,
                continues: next.continues,
            };
        }
        ends
    }

    fn branches(&mut self, all: &[&'a Statement], depth: usize) -> Ends {
        let Some((one, rest)) = all.split_first() else {
            return Ends { continues: true, ..Ends::default() };
        };
        let tokens = match one.word(0) {
            "else" if one.word(1) == "if" => &one.tokens[2..],
            "else" => &[],
            _ => &one.tokens[1..],
        };
        let inner: Vec<&Statement> = one.inner().iter().collect();
        if tokens.is_empty() {
            return self.block(&inner, depth + 1);
        }
        if let Some((is_not, acl)) = client_test(tokens) {
            self.is_unknown |= self.acl.replace(acl).is_some_and(|old| old != acl);
            return match self.is_in_acl != is_not {
                true => self.block(&inner, depth + 1),
                false => self.branches(rest, depth + 1),
            };
        }
        let (with, without) = (self.block(&inner, depth + 1), self.branches(rest, depth + 1));
        self.is_unknown |= with != without && compares(tokens);
        let purges = with.purges || without.purges;
        let refuses = (with.refuses || without.refuses) && !purges;
        // A refusal for want of a field of the dialect is none of the client.
        let is_choice = !compares(tokens) && (with.continues != without.continues);
        Ends {
            purges,
            refuses: refuses && !is_choice,
            continues: with.continues || without.continues,
        }
    }
}

/// Returns whether a condition only tests whether the client is in a list, with its name, and
/// whether it must not be.
fn client_test(tokens: &[Token]) -> Option<(bool, &str)> {
    let words: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    match words[..] {
        ["(", "client.ip", sign @ ("~" | "!~"), acl, ")"] => Some((sign == "!~", acl)),
        ["(", "!", "client.ip", "~", acl, ")"]
        | ["(", "!", "(", "client.ip", "~", acl, ")", ")"] => Some((true, acl)),
        _ => None,
    }
}

/// Returns whether a condition tests more than fields of the purge dialect.
fn compares(tokens: &[Token]) -> bool {
    let tags = TagFields::default();
    let is_known = |token: &Token| {
        let name = token.text.to_ascii_lowercase();
        let field = name.strip_prefix("req.http.");
        field.is_some_and(|field| {
            let meanings = FIELDS.iter().filter_map(|known| known.split_once('='));
            meanings.into_iter().any(|(known, _)| known == field)
                || tags.names().any(|name| name.as_str() == field)
        })
    };
    let words: Vec<&Token> = tokens.iter().filter(|token| token.kind == Kind::Word).collect();
    // A field that the client sends may be its key, and only its presence is tested.
    !words.into_iter().all(is_known)
}
