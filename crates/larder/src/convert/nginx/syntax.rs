//! Reads nginx's configuration into a tree of directives, with `include` resolved.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::convert::source::{self, At};

/// A directive, with its block if it has one.
#[derive(Clone, Debug, Default)]
pub struct Directive {
    pub name: String,
    pub args: Vec<String>,
    pub at: At,
    pub block: Option<Vec<Directive>>,
}

impl Directive {
    pub fn arg(&self, number: usize) -> &str {
        self.args.get(number).map_or("", String::as_str)
    }

    pub fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// Depth of nested blocks.
const DEPTH_MAX: usize = 32;
/// Depth of nested includes.
const INCLUDE_DEPTH_MAX: usize = 16;
/// Most files that are read.
const FILES_MAX: usize = 2000;
/// Most directives in all files.
const DIRECTIVES_MAX: usize = 500_000;

/// Reads a text and all that it includes.
pub struct Reader {
    /// Directory that relative includes start from.
    base: PathBuf,
    files: usize,
    directives: usize,
    open: Vec<PathBuf>,
    /// Includes that could not be read: the place, and a sentence.
    pub missing: Vec<(At, String)>,
}

impl Reader {
    pub fn new(main: &Path) -> Reader {
        let base = main.parent().unwrap_or(Path::new("")).to_owned();
        Reader { base, files: 0, directives: 0, open: vec![main.to_owned()], missing: Vec::new() }
    }

    /// # Errors
    ///
    /// A sentence with file and line.
    pub fn read(&mut self, path: &Path, text: &str) -> Result<Vec<Directive>, String> {
        let file: Arc<str> = path.display().to_string().into();
        let mut lexer = Lexer { text, at: 0, line: 1 };
        let mut stack: Vec<(Directive, Vec<Directive>)> = Vec::new();
        let mut current = Vec::new();
        let (mut words, mut line) = (Vec::new(), 0);
        loop {
            let wrong = |line: usize, why: &str| Err(format!("{file}:{line}: {why}"));
            let began = lexer.line;
            match lexer.next().map_err(|(line, why)| format!("{file}:{line}: {why}"))? {
                Token::Word(word) => {
                    if words.is_empty() {
                        line = began.max(lexer.line_of_word(&word));
                    }
                    words.push(word);
                }
                token @ (Token::Semicolon | Token::Open) => {
                    let mut taken = std::mem::take(&mut words).into_iter();
                    let Some(name) = taken.next() else {
                        return wrong(lexer.line, "expected the name of a directive");
                    };
                    self.directives += 1;
                    if self.directives > DIRECTIVES_MAX {
                        return wrong(lexer.line, "too many directives");
                    }
                    let at = At { file: file.clone(), line };
                    let directive = Directive { name, args: taken.collect(), at, block: None };
                    if token == Token::Open && directive.name.ends_with("_by_lua_block") {
                        lexer.skip_lua();
                        current.push(directive);
                    } else if token == Token::Open {
                        if stack.len() >= DEPTH_MAX {
                            return wrong(lexer.line, "blocks are nested too deeply");
                        }
                        stack.push((directive, std::mem::take(&mut current)));
                    } else if directive.name == "include" {
                        self.include(&directive, &mut current)?;
                    } else {
                        current.push(directive);
                    }
                }
                Token::Close => {
                    let Some((mut directive, outer)) = stack.pop() else {
                        return wrong(lexer.line, "unexpected }");
                    };
                    if !words.is_empty() {
                        return wrong(lexer.line, "expected ; before }");
                    }
                    directive.block = Some(std::mem::replace(&mut current, outer));
                    current.push(directive);
                }
                Token::End if stack.is_empty() && words.is_empty() => return Ok(current),
                Token::End => {
                    return wrong(lexer.line, "the file ends within a block or directive");
                }
            }
        }
    }

    fn include(&mut self, directive: &Directive, into: &mut Vec<Directive>) -> Result<(), String> {
        let pattern = self.base.join(directive.arg(0));
        let pattern = pattern.to_string_lossy().into_owned();
        // As the system's glob: a star is for no dot at the beginning.
        let options = glob::MatchOptions {
            require_literal_leading_dot: true,
            ..glob::MatchOptions::default()
        };
        let found: Vec<PathBuf> = match glob::glob_with(&pattern, options) {
            Ok(paths) => paths.filter_map(Result::ok).filter(|path| path.is_file()).collect(),
            Err(error) => {
                self.missing.push((directive.at.clone(), format!("{pattern}: {error}")));
                return Ok(());
            }
        };
        // Media types need no translation, wherever the file is.
        let is_of_types = Path::new(&pattern).ends_with("mime.types");
        if found.is_empty() && !is_of_types && !pattern.contains(['*', '?', '[']) {
            self.missing.push((directive.at.clone(), format!("{pattern}: there is no such file")));
            if !is_harmless(&pattern) {
                into.push(directive.clone());
            }
        }
        for path in found {
            let At { file, line } = &directive.at;
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            self.files += 1;
            if self.open.contains(&real) || self.open.len() > INCLUDE_DEPTH_MAX {
                return Err(format!("{file}:{line}: include: files include each other"));
            }
            if self.files > FILES_MAX {
                return Err(format!("{file}:{line}: include: more than {FILES_MAX} files"));
            }
            let text = source::read(&path)?;
            self.open.push(real);
            let read = self.read(&path, &text);
            self.open.pop();
            into.extend(read?);
        }
        Ok(())
    }
}

/// Returns whether a file has the name of one of the packages' that refuse no requests.
fn is_harmless(pattern: &str) -> bool {
    const NAMES: [&str; 8] = [
        "fastcgi_params",
        "fastcgi.conf",
        "uwsgi_params",
        "scgi_params",
        "proxy_params",
        "options-ssl-nginx.conf",
        "ssl-params.conf",
        "ssl_params",
    ];
    Path::new(pattern).file_name().is_some_and(|name| NAMES.iter().any(|one| name == *one))
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Semicolon,
    Open,
    Close,
    End,
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Lexer<'_> {
    /// Returns the line on which the word that was just read begins.
    fn line_of_word(&self, word: &str) -> usize {
        self.line - word.matches('\n').count().min(self.line - 1)
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn next(&mut self) -> Result<Token, (usize, String)> {
        loop {
            match self.peek() {
                None => return Ok(Token::End),
                Some(c) if c.is_whitespace() => {
                    self.take();
                }
                Some('#') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.take();
                    }
                }
                Some(c @ (';' | '{' | '}')) => {
                    self.take();
                    return Ok(match c {
                        ';' => Token::Semicolon,
                        '{' => Token::Open,
                        _ => Token::Close,
                    });
                }
                Some(quote @ ('"' | '\'')) => return self.quoted(quote),
                Some(_) => return Ok(Token::Word(self.plain())),
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Token, (usize, String)> {
        let line = self.line;
        self.take();
        let mut word = String::new();
        loop {
            match self.take() {
                None => return Err((line, "a quoted text does not end".to_owned())),
                Some(c) if c == quote => break,
                Some('\\') => match self.take() {
                    Some(c @ ('"' | '\'' | '\\')) => word.push(c),
                    Some('n') => word.push('\n'),
                    Some('t') => word.push('\t'),
                    Some('r') => word.push('\r'),
                    Some(c) => word.extend(['\\', c]),
                    None => {}
                },
                Some(c) => word.push(c),
            }
        }
        // `("x")` of an `if`.
        while self.peek() == Some(')') {
            self.take();
            word.push(')');
        }
        Ok(Token::Word(word))
    }

    /// Skips a program up to the brace that ends its block. Braces in texts and comments count for
    /// nothing.
    fn skip_lua(&mut self) {
        let mut depth = 1;
        while depth > 0 {
            let rest = &self.text[self.at..];
            let comment = if rest.starts_with("--") { 2 } else { 0 };
            let long = rest[comment..].strip_prefix('[').and_then(|rest| {
                let level = rest.len() - rest.trim_start_matches('=').len();
                rest[level..].starts_with('[').then(|| format!("]{}]", "=".repeat(level)))
            });
            match (long, self.take()) {
                (_, None) => return,
                (Some(end), _) => self.skip_past(&end),
                (None, _) if comment > 0 => self.skip_past("\n"),
                (None, Some(quote @ ('"' | '\''))) => {
                    while self.take().is_some_and(|c| c != quote) {
                        if self.text[..self.at].ends_with('\\') {
                            self.take();
                        }
                    }
                }
                (None, Some('{')) => depth += 1,
                (None, Some('}')) => depth -= 1,
                _ => {}
            }
        }
    }

    fn skip_past(&mut self, end: &str) {
        let rest = &self.text[self.at..];
        let to = self.at + rest.find(end).map_or(rest.len(), |at| at + end.len());
        while self.at < to {
            self.take();
        }
    }

    fn plain(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek() {
            match c {
                '$' if self.text[self.at + 1..].starts_with('{') => {
                    while let Some(c) = self.take() {
                        word.push(c);
                        if c == '}' {
                            break;
                        }
                    }
                }
                '\\' => {
                    word.extend(self.take());
                    word.extend(self.take());
                }
                // A brace within a word is a quantifier of a regular expression only in quotes.
                ';' | '{' | '}' => break,
                c if c.is_whitespace() => break,
                _ => word.extend(self.take()),
            }
        }
        word
    }
}

/// Calls `with` for all directives, with those in their blocks.
pub fn walk<'a>(block: &'a [Directive], with: &mut impl FnMut(&'a Directive)) {
    for one in block {
        with(one);
        walk(one.inner(), with);
    }
}
