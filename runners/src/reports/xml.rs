//! A small, forgiving walk over XML reports: elements, attributes and text, never entities of a document's own.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// What the walk meets.
pub(super) enum Node<'a> {
    /// An element opens; `empty` elements are followed by their `Close` too.
    Open(Element<'a>),
    Close(String),
    Text(String),
}

/// An element's name without its prefix, and its attributes.
pub(super) struct Element<'a> {
    pub name: String,
    start: BytesStart<'a>,
}

impl Element<'_> {
    /// The unescaped value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<String> {
        self.start.attributes().with_checks(false).flatten().find_map(|attribute| {
            (attribute.key.local_name().as_ref() == name).then(|| unescape(&attribute.value))
        })
    }

    /// An attribute that is a count.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.attribute(name).and_then(|value| value.trim().parse().ok())
    }
}

/// Why a document could not be read to its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut;

/// Elements deeper than this are no report.
const DEPTH: usize = 200;

/// Walks the document; `Err` means that it is cut or no XML, after what was readable has been visited.
pub(super) fn walk(bytes: &[u8], mut visit: impl FnMut(Node<'_>)) -> Result<(), Cut> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let mut open: usize = 0;
    let mut seen_root = false;
    loop {
        match reader.read_event() {
            Ok(Event::Start(start)) => {
                open += 1;
                seen_root = true;
                if open > DEPTH {
                    return Err(Cut);
                }
                visit(Node::Open(element(start)));
            }
            Ok(Event::Empty(start)) => {
                seen_root = true;
                let element = element(start);
                let name = element.name.clone();
                visit(Node::Open(element));
                visit(Node::Close(name));
            }
            Ok(Event::End(end)) => {
                open = open.saturating_sub(1);
                visit(Node::Close(end.local_name().as_ref().to_owned()));
            }
            Ok(Event::Text(text)) => visit(Node::Text((*text).to_owned())),
            Ok(Event::CData(data)) => visit(Node::Text((*data).to_owned())),
            Ok(Event::GeneralRef(reference)) => {
                visit(Node::Text(unescape(&format!("&{};", &*reference))));
            }
            Ok(Event::Eof) => return if open == 0 && seen_root { Ok(()) } else { Err(Cut) },
            Ok(Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_)) => {}
            Err(_) => return Err(Cut),
        }
    }
}

fn element(start: BytesStart<'_>) -> Element<'_> {
    Element { name: start.local_name().as_ref().to_owned(), start }
}

/// Resolves the five predefined entities and character references; anything else stays as it is written.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let reference = rest.bytes().take(12).position(|byte| byte == b';').map(|end| &rest[1..end]);
        match reference.and_then(|name| resolve(name).map(|found| (found, name.len() + 2))) {
            Some((found, length)) => {
                out.push(found);
                rest = &rest[length..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn resolve(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        other => {
            let digits = other.strip_prefix('#')?;
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(document: &str) -> (Vec<String>, Result<(), Cut>) {
        let mut seen = Vec::new();
        let end = walk(document.as_bytes(), |node| match node {
            Node::Open(element) => {
                seen.push(format!("<{} {}", element.name, element.attribute("m").unwrap_or_default()));
            }
            Node::Close(name) => seen.push(format!("{name}>")),
            Node::Text(text) => seen.push(text),
        });
        (seen, end)
    }

    #[test]
    fn references_are_resolved_and_unknown_entities_stay() {
        let (seen, end) = texts("<a m='x &lt; &#121;&#x7A; &own;'>b &amp; <![CDATA[<c>]]></a>");
        assert_eq!(seen.concat(), "<a x < yz &own;b & <c>a>");
        assert_eq!(end, Ok(()));
    }

    #[test]
    fn a_cut_document_is_told() {
        assert_eq!(texts("<a><b>te").1, Err(Cut));
        assert_eq!(texts("").1, Err(Cut));
        assert_eq!(texts("no xml").1, Err(Cut));
        assert_eq!(texts("<a></b>").1, Err(Cut));
    }
}
