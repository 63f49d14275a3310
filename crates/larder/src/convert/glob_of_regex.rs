//! Regular expressions as patterns with `*`, where they can be expressed so: alternatives of texts
//! with `.*` between.

/// Patterns that a regular expression stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Globs {
    pub all: Vec<String>,
    /// False if the patterns match more than the expression.
    pub is_exact: bool,
}

/// Most patterns made of one expression.
const MOST: usize = 64;

/// Returns patterns that match at least all texts that the expression matches, or `None`.
pub fn globs(regex: &str) -> Option<Globs> {
    let regex = regex.strip_prefix("(?i)").unwrap_or(regex);
    let mut found = Globs { all: Vec::new(), is_exact: true };
    for one in alternatives(regex)? {
        let (one, from_start) = match one.strip_prefix('^') {
            Some(rest) => (rest, true),
            None => (one, false),
        };
        let (one, to_end) = match one.strip_suffix('$').filter(|rest| !rest.ends_with('\\')) {
            Some(rest) => (rest, true),
            None => (one, false),
        };
        for mut glob in expand(one, &mut found.is_exact)? {
            if !from_start {
                glob.insert(0, '*');
            }
            if !to_end {
                glob.push('*');
            }
            while glob.contains("**") {
                glob = glob.replace("**", "*");
            }
            found.all.push(glob);
        }
        if found.all.len() > MOST {
            return None;
        }
    }
    Some(found)
}

/// Returns the whole texts that an expression matches, if it is a list of texts.
pub fn words(regex: &str) -> Option<Vec<String>> {
    let globs = globs(regex)?;
    let is_list = globs.is_exact && globs.all.iter().all(|glob| !glob.contains('*'));
    is_list.then_some(globs.all)
}

/// Splits at `|` outside groups.
pub fn alternatives(regex: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut start, mut is_escaped) = (Vec::new(), 0_usize, 0, false);
    let mut in_class = false;
    for (at, c) in regex.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            _ if in_class => {}
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            '|' if depth == 0 => {
                parts.push(&regex[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&regex[start..]);
    (depth == 0).then_some(parts)
}

/// Returns the texts of a sequence of literals, `.*`, classes and at most a few flat groups.
fn expand(regex: &str, is_exact: &mut bool) -> Option<Vec<String>> {
    let mut all = vec![String::new()];
    let mut rest = regex;
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        let mut pieces = match c {
            '\\' => {
                let next = rest[1..].chars().next()?;
                length += next.len_utf8();
                match next {
                    'd' | 'w' | 's' | 'S' | 'W' | 'D' | 'b' => {
                        *is_exact = false;
                        vec!["*".to_owned()]
                    }
                    '*' => return None,
                    next if next.is_ascii_alphanumeric() => return None,
                    next => vec![next.to_string()],
                }
            }
            '.' if rest.starts_with(".*") => vec!["*".to_owned()],
            '[' => {
                length = rest.find(']')? + 1;
                *is_exact = false;
                vec!["*".to_owned()]
            }
            '(' => {
                let end = rest.find(')')?;
                let inner = &rest[1..end];
                let inner = inner.strip_prefix("?:").unwrap_or(inner);
                if inner.contains(['(', '?', '^', '$', '\\', '[', '+', '*', '{']) {
                    return None;
                }
                length = end + 1;
                let dots = inner.contains('.');
                *is_exact &= !dots;
                inner.split('|').map(|text| text.replace('.', "*")).collect()
            }
            '.' => {
                *is_exact = false;
                vec!["*".to_owned()]
            }
            '^' | '$' | '{' | '*' | '+' | '?' | ')' => return None,
            c => vec![c.to_string()],
        };
        rest = &rest[length..];
        if c == '.' && rest.starts_with('*') {
            rest = &rest[1..];
        } else if let Some(after) = rest.strip_prefix('?').filter(|_| pieces[..] != ["*"]) {
            pieces.push(String::new());
            rest = after;
        } else if let Some(after) = rest.strip_prefix(['*', '+', '?']) {
            *is_exact = false;
            pieces = vec!["*".to_owned()];
            rest = after;
        } else if rest.starts_with('{') {
            *is_exact = false;
            pieces = vec!["*".to_owned()];
            rest = &rest[rest.find('}')? + 1..];
        }
        if all.len() * pieces.len() > MOST {
            return None;
        }
        all = all
            .iter()
            .flat_map(|begin| pieces.iter().map(move |piece| format!("{begin}{piece}")))
            .collect();
    }
    Some(all)
}
