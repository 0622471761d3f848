//! MIME multipart archives, the form in which cloud-init takes several pieces of user data (AWS-132, AWS-134, AWS-139).

/// Boundary of the archives that are written.
const BOUNDARY: &str = "//";
/// Content type of a shell script.
pub(super) const SHELL_SCRIPT: &str = "text/x-shellscript; charset=\"us-ascii\"";
/// Content type of a nodeadm NodeConfig.
pub(super) const NODE_CONFIG: &str = "application/node.eks.aws";

/// One part of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Headers by name as written, such as the content type.
    pub headers: Vec<(String, String)>,
    /// The text.
    pub content: String,
}

impl Part {
    /// A part with a content type alone.
    pub fn new(content_type: &str, content: impl Into<String>) -> Self {
        Self {
            headers: vec![("Content-Type".to_owned(), content_type.to_owned())],
            content: content.into(),
        }
    }

    /// The content type; empty if the part has none.
    pub fn content_type(&self) -> &str {
        header(&self.headers, "content-type").unwrap_or_default()
    }
}

/// An archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    /// The parts in order.
    pub parts: Vec<Part>,
}

/// Why a text is no MIME archive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MimeError {
    /// A line among the headers is no header.
    #[error("malformed MIME header on line {line}")]
    Header {
        /// Number of the line in the archive or part, from one.
        line: usize,
    },
    /// The content type is missing or is not multipart.
    #[error("the archive is not in multipart format")]
    NotMultipart,
    /// The content type names no boundary.
    #[error("the content type of the archive names no boundary")]
    Boundary,
    /// The closing boundary is missing.
    #[error("the archive does not end with its boundary")]
    Unclosed,
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

/// Names and values.
type Headers = Vec<(String, String)>;

/// Headers and the text after the first empty line. A line that begins with a blank continues the header before it.
fn split_headers(text: &str) -> Result<(Headers, &str), MimeError> {
    let mut headers = Headers::new();
    let mut rest = text;
    let mut line_number = 0;
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        line_number += 1;
        rest = after;
        let line = line.trim_end_matches('\r');
        if line.is_empty() {
            break;
        }
        if let (true, Some((_, value))) = (line.starts_with([' ', '\t']), headers.last_mut()) {
            value.push(' ');
            value.push_str(line.trim());
            continue;
        }
        let parsed = line.split_once(':').filter(|(name, _)| is_header_name(name));
        let (name, value) = parsed.ok_or(MimeError::Header { line: line_number })?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok((headers, rest))
}

fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The boundary in a content type.
fn boundary(content_type: &str) -> Option<&str> {
    let parameters = content_type.split(';').skip(1).map(str::trim);
    let mut named = parameters.filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim())
    });
    named
        .next()
        .map(|value| value.trim_matches('"'))
        .filter(|value| !value.is_empty())
}

impl Archive {
    /// Whether a text is meant as an archive: it begins with one of the two headers every archive has.
    pub fn is_meant(text: &str) -> bool {
        let text = text.trim_start();
        text.starts_with("MIME-Version:") || text.starts_with("Content-Type:")
    }

    /// Reads an archive.
    pub fn parse(text: &str) -> Result<Self, MimeError> {
        let (headers, body) = split_headers(text.trim_start())?;
        let content_type = header(&headers, "content-type").ok_or(MimeError::NotMultipart)?;
        if !content_type.to_lowercase().starts_with("multipart/") {
            return Err(MimeError::NotMultipart);
        }
        let separator = format!("--{}", boundary(content_type).ok_or(MimeError::Boundary)?);
        let closing = format!("{separator}--");
        let mut parts = Vec::new();
        let mut current: Option<String> = None;
        for line in body.split_inclusive('\n') {
            let bare = line.trim_end();
            if bare == separator || bare == closing {
                if let Some(text) = current.take() {
                    parts.push(part(&text)?);
                }
                if bare == closing {
                    return Ok(Self { parts });
                }
                current = Some(String::new());
            } else if let Some(text) = &mut current {
                text.push_str(line);
            }
        }
        Err(MimeError::Unclosed)
    }

    /// Writes the archive with plain line ends.
    pub fn render(&self) -> String {
        let mut text = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n");
        for part in &self.parts {
            text.push_str(&format!("--{BOUNDARY}\n"));
            for (name, value) in &part.headers {
                text.push_str(&format!("{name}: {value}\n"));
            }
            text.push('\n');
            text.push_str(&part.content.replace('\r', ""));
            text.push('\n');
        }
        text.push_str(&format!("--{BOUNDARY}--\n"));
        text
    }
}

/// A part; the line end before the next boundary belongs to the boundary.
fn part(text: &str) -> Result<Part, MimeError> {
    let (headers, content) = split_headers(text)?;
    let content = content.strip_suffix('\n').unwrap_or(content);
    let content = content.strip_suffix('\r').unwrap_or(content);
    Ok(Part {
        headers,
        content: content.to_owned(),
    })
}
