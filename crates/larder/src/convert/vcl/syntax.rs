//! Reads VCL 4 into declarations and statements.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::convert::source::{self, At};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Word,
    Text,
    Sign,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub text: String,
    pub at: At,
}

impl Token {
    pub fn is(&self, sign: &str) -> bool {
        self.kind != Kind::Text && self.text == sign
    }
}

/// A statement: tokens up to `;`, or a block behind its tokens.
#[derive(Clone, Debug)]
pub struct Statement {
    pub tokens: Vec<Token>,
    pub block: Option<Vec<Statement>>,
}

impl Statement {
    pub fn at(&self) -> At {
        self.tokens.first().map(|token| token.at.clone()).unwrap_or_default()
    }

    pub fn word(&self, number: usize) -> &str {
        self.tokens.get(number).map_or("", |token| token.text.as_str())
    }

    pub fn text(&self) -> String {
        let words = self.tokens.iter().map(|token| match token.kind {
            Kind::Text => format!("\"{}\"", token.text),
            _ => token.text.clone(),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    pub fn inner(&self) -> &[Statement] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// Depth of nested blocks and includes.
const DEPTH_MAX: usize = 32;
/// Most tokens of a file and those that it includes.
const TOKENS_MAX: usize = 2_000_000;

/// Reads a text with its includes. The error is a sentence with file and line.
pub fn read(path: &Path, text: &str, open: &[PathBuf]) -> Result<Vec<Statement>, String> {
    let tokens = tokens(path, text)?;
    let mut at = 0;
    let mut all = Vec::new();
    for statement in block(&tokens, &mut at, 0)? {
        if statement.word(0) != "include" {
            all.push(statement);
            continue;
        }
        let At { file, line } = statement.at();
        let base = path.parent().unwrap_or(Path::new(""));
        let other = base.join(statement.tokens.get(1).map_or("", |token| token.text.as_str()));
        if open.len() > DEPTH_MAX || open.contains(&other) {
            return Err(format!("{file}:{line}: include: files include each other"));
        }
        let text = source::read(&other).map_err(|why| format!("{file}:{line}: include: {why}"))?;
        all.extend(read(&other, &text, &[open, std::slice::from_ref(&other)].concat())?);
    }
    Ok(all)
}

fn block(tokens: &[Token], at: &mut usize, depth: usize) -> Result<Vec<Statement>, String> {
    let (mut all, mut current) = (Vec::new(), Vec::new());
    let wrong = |token: Option<&Token>, why: &str| {
        let at = token.or(tokens.last()).map(|token| token.at.clone()).unwrap_or_default();
        Err(format!("{}:{}: {why}", at.file, at.line))
    };
    if depth > DEPTH_MAX {
        return wrong(tokens.get(*at), "blocks are nested too deeply");
    }
    while let Some(token) = tokens.get(*at) {
        *at += 1;
        if token.is(";") {
            if !current.is_empty() {
                let tokens = std::mem::take(&mut current);
                all.push(Statement { tokens, block: None });
            }
        } else if token.is("{") {
            let inner = block(tokens, at, depth + 1)?;
            let tokens = std::mem::take(&mut current);
            // `.probe = { … }` ends without a semicolon, as blocks do.
            all.push(Statement { tokens, block: Some(inner) });
        } else if token.is("}") {
            if depth == 0 || !current.is_empty() {
                return wrong(Some(token), "unexpected }");
            }
            return Ok(all);
        } else {
            current.push(token.clone());
        }
    }
    match depth == 0 && current.is_empty() {
        true => Ok(all),
        false => wrong(None, "the file ends within a block or statement"),
    }
}

const SIGNS: [&str; 11] = ["==", "!=", "!~", "&&", "||", "<=", ">=", "+=", "-=", "*=", "/="];

fn tokens(path: &Path, text: &str) -> Result<Vec<Token>, String> {
    let file: Arc<str> = path.display().to_string().into();
    let (mut rest, mut line, mut all) = (text, 1, Vec::new());
    while let Some(c) = rest.chars().next() {
        let wrong = |why: &str| Err(format!("{file}:{line}: {why}"));
        let mut value = None;
        let length = if c.is_whitespace() {
            c.len_utf8()
        } else if c == '#' || rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(inner) = rest.strip_prefix("/*") {
            match inner.find("*/") {
                Some(end) => end + 4,
                None => return wrong("a comment does not end"),
            }
        } else if let Some(inner) = rest.strip_prefix("{\"") {
            let Some(end) = inner.find("\"}") else { return wrong("a text does not end") };
            value = Some((Kind::Text, &inner[..end]));
            end + 4
        } else if let Some(inner) = rest.strip_prefix('"') {
            let Some(end) = inner.find(['"', '\n']).filter(|end| inner[*end..].starts_with('"'))
            else {
                return wrong("a text does not end");
            };
            value = Some((Kind::Text, &inner[..end]));
            end + 2
        } else if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') {
            let is_end = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.' | '-');
            let end = rest.find(is_end).unwrap_or(rest.len());
            value = Some((Kind::Word, &rest[..end]));
            end
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let length = sign.map_or(c.len_utf8(), |sign| sign.len());
            value = Some((Kind::Sign, &rest[..length]));
            length
        };
        if let Some((kind, text)) = value {
            let at = At { file: file.clone(), line };
            all.push(Token { kind, text: text.to_owned(), at });
        }
        if all.len() > TOKENS_MAX {
            return wrong("too many words");
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    Ok(all)
}
