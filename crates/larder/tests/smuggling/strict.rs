//! A strict parser of HTTP/1.1 requests, as of an origin server that makes no allowances. Anything
//! but the grammar of RFC 9110 and RFC 9112, in the single form that a careful sender writes, is
//! malformed. All parsers agree on what it accepts.

/// A well-formed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub target: String,
    /// Names in lower case, and values.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// Returns the value of a field that occurs exactly once.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn all(&self, name: &str) -> Vec<&str> {
        let same = self.fields.iter().filter(|(n, _)| n == name);
        same.map(|(_, value)| value.as_str()).collect()
    }
}

/// The interpretation of the first bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// The beginning of a request.
    More,
    /// A request, and its length in bytes.
    Whole(Request, usize),
    /// Not a request, with the reason.
    Malformed(String),
}

/// Parses the first request.
pub fn read(bytes: &[u8]) -> Read {
    match request(bytes) {
        Ok(Some((request, length))) => Read::Whole(request, length),
        Ok(None) => Read::More,
        Err(why) => Read::Malformed(why),
    }
}

fn request(bytes: &[u8]) -> Result<Option<(Request, usize)>, String> {
    let mut rest = bytes;
    let Some(first) = line(&mut rest)? else { return Ok(None) };
    let (method, target) = request_line(first)?;
    let Some(fields) = fields(&mut rest)? else { return Ok(None) };
    let mut request = Request { method, target, fields, body: Vec::new() };
    if request.all("host").len() != 1 {
        return Err(format!("{} Host fields", request.all("host").len()));
    }
    let body = match (&request.all("content-length")[..], &request.all("transfer-encoding")[..]) {
        ([], []) => Some(Vec::new()),
        ([length], []) => {
            let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
            let length = length.parse::<usize>().ok().filter(|_| digits);
            let length = length.ok_or("a Content-Length that is no number")?;
            take(&mut rest, length).map(<[u8]>::to_vec)
        }
        ([], ["chunked"]) => chunks(&mut rest)?,
        ([], [coding]) => return Err(format!("Transfer-Encoding: {coding}")),
        ([_, ..], [_, ..]) => return Err("Content-Length beside Transfer-Encoding".to_owned()),
        ([_, _, ..], []) => return Err("several Content-Length fields".to_owned()),
        ([], [_, _, ..]) => return Err("several Transfer-Encoding fields".to_owned()),
    };
    let Some(body) = body else { return Ok(None) };
    request.body = body;
    Ok(Some((request, bytes.len() - rest.len())))
}

/// Reads a line without its terminator, which is CR LF.
fn line<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, String> {
    let Some(end) = rest.iter().position(|&b| b == b'\n') else {
        return if rest.len() > 1 << 20 { Err("a line without end".to_owned()) } else { Ok(None) };
    };
    let (line, behind) = (&rest[..end], &rest[end + 1..]);
    let line = line.strip_suffix(b"\r").ok_or("a bare LF")?;
    if line.iter().any(|&b| (b < 0x20 && b != b'\t') || b == 0x7f) {
        return Err("a control character".to_owned());
    }
    *rest = behind;
    Ok(Some(line))
}

fn is_token(text: &[u8]) -> bool {
    let fits = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    !text.is_empty() && text.iter().all(fits)
}

fn request_line(line: &[u8]) -> Result<(String, String), String> {
    let wrong = || format!("the request line {:?}", String::from_utf8_lossy(line));
    let text = std::str::from_utf8(line).map_err(|_| wrong())?;
    let words: Vec<&str> = text.split(' ').collect();
    let [method, target, "HTTP/1.1"] = words[..] else { return Err(wrong()) };
    let whole = is_token(method.as_bytes()) && target.bytes().all(|b| b.is_ascii_graphic());
    if !whole || target.is_empty() || target.contains('#') {
        return Err(wrong());
    }
    Ok((method.to_owned(), target.to_owned()))
}

fn fields(rest: &mut &[u8]) -> Result<Option<Vec<(String, String)>>, String> {
    let mut fields = Vec::new();
    loop {
        let Some(line) = line(rest)? else { return Ok(None) };
        if line.is_empty() {
            return Ok(Some(fields));
        }
        let colon = line.iter().position(|&b| b == b':').ok_or("a field without a colon")?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if !is_token(name) {
            return Err(format!("the field name {:?}", String::from_utf8_lossy(name)));
        }
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_matches([' ', '\t']).to_owned();
        fields.push((text(name).to_ascii_lowercase(), text(value)));
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

fn chunks(rest: &mut &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut body = Vec::new();
    loop {
        let Some(size) = line(rest)? else { return Ok(None) };
        let digits = !size.is_empty() && size.iter().all(u8::is_ascii_hexdigit) && size.len() <= 8;
        let text = String::from_utf8_lossy(size);
        let size = usize::from_str_radix(&text, 16).ok().filter(|_| digits);
        let size = size.ok_or_else(|| format!("the chunk size {text:?}"))?;
        if size == 0 {
            return Ok(fields(rest)?.map(|_| body));
        }
        let Some(data) = take(rest, size) else { return Ok(None) };
        body.extend_from_slice(data);
        let Some(end) = take(rest, 2) else { return Ok(None) };
        if end != b"\r\n" {
            return Err("a chunk that does not end where its size says".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_well_formed_is_read_and_nothing_else() {
        let get = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
        for cut in 0..get.len() {
            assert_eq!(read(&get[..cut]), Read::More);
        }
        let Read::Whole(request, length) = read(&[&get[..], b"more"].concat()) else { panic!() };
        assert_eq!((request.target.as_str(), request.get("host"), length), ("/x", Some("a"), 28));
        let post =
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
        assert!(matches!(read(post.as_bytes()), Read::Whole(request, _) if request.body == b"ab"));
        for bad in [
            "GET /x HTTP/1.1\nHost: a\n\n",
            "GET /x HTTP/1.0\r\nHost: a\r\n\r\n",
            "GET /x y HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /x HTTP/1.1\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\n X: b\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nx",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;a\r\nab\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        ] {
            assert!(matches!(read(bad.as_bytes()), Read::Malformed(_)), "{bad:?}");
        }
    }
}
